document.addEventListener('click', event => {
  const button = event.target.closest('th button');
  if (!button) return;
  const heading = button.parentElement, body = heading.closest('table').tBodies[0];
  const column = heading.cellIndex, up = heading.getAttribute('aria-sort') !== 'ascending';
  const key = row => row.cells[column].dataset.v ?? row.cells[column].textContent;
  const known = row => key(row) !== '';
  const rows = [...body.rows];
  const numbers = rows.every(row => !known(row) || !isNaN(key(row)));
  const sorted = rows.filter(known).sort((a, b) =>
    numbers ? key(a) - key(b) : key(a).localeCompare(key(b), undefined, {numeric: true}));
  if (!up) sorted.reverse();
  body.append(...sorted, ...rows.filter(row => !known(row)));
  for (const other of heading.parentElement.cells) other.removeAttribute('aria-sort');
  heading.setAttribute('aria-sort', up ? 'ascending' : 'descending');
});
