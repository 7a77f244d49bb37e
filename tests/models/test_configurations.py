"""Names of configurations, aliases, groups and flags."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.models import all_models
from srs_eval.models.configurations import (
    GROUPS,
    list_names,
    readable_name,
    resolve_configurations,
)
from srs_eval.models.published import (
    NAMING_YEARS,
    describe_ambiguity,
    from_upstream_name,
    to_upstream_name,
)
from tests.helpers.golden import golden_folder
from tests.helpers.marks import slow_except


def list_all_names() -> list[str]:
    """Return the names of all configurations that tables list."""
    listed: list[str] = []
    for model in all_models().values():
        listed += list_names(model)
    return listed


def names(words: str, protocol: Protocol | None = None, fit: str = "trained") -> set[str]:
    return {configuration.name for configuration in resolve_configurations(words, protocol, fit)}  # type: ignore[arg-type]


def test_every_listed_name_resolves_to_itself_whatever_its_case() -> None:
    for model in all_models().values():
        for name in list_names(model):
            assert names(name) == {name}
            assert names(name.upper()) == {name}
        for alias, name in model.aliases.items():
            assert names(alias) == names(name)


def test_names_and_suffixes() -> None:
    (configuration,) = resolve_configurations("fsrs-6-s0")
    assert configuration.name == "FSRS-6-pretrain"
    assert configuration.fit == "S0"
    assert configuration.parameters == 4
    assert configuration.protocol.short
    (configuration,) = resolve_configurations("FSRS-6-two_buttons")
    assert configuration.name == "FSRS-6-binary"
    assert configuration.parameters == 17
    assert configuration.protocol.two_buttons
    assert names("FSRS-6-recency-preset") == {"FSRS-6-recency-preset"}
    assert names("FSRS-6-preset-recency") == {"FSRS-6-recency-preset"}
    assert names("FSRS-6-short") == {"FSRS-6"}
    assert names("SM2-short, sm2-short,SM2") == {"SM2", "SM2-short"}
    assert names("sm2") >= {"SM2", "SM2-short", "Memrise", "Anki-dry-run"}  # the group


def test_bare_name_means_the_models_standard_flags() -> None:
    assert names("FSRS-7") == {"FSRS-7-short-secs-recency"}
    assert names("FSRS-7-dry-run") == {"FSRS-7-dry-run-short-secs"}
    assert names("FSRS-7-preset") == {"FSRS-7-short-secs-recency-preset"}
    assert names("FSRS-7-train_equals_test") == names("FSRS-7", Protocol(train_equals_test=True))
    assert names("FSRS-7-secs") == {"FSRS-7-secs"}


def test_groups_contain_their_families() -> None:
    all_names = names("all")
    assert {"AVG", "SM2", "SM2-short", "FSRS-6", "FSRS-6-recency"} <= all_names
    assert names("fast") <= all_names
    for group in GROUPS:
        if any(model.family == group for model in all_models().values()):
            assert names(group) <= all_names


def test_flags_are_added_to_models_that_support_them() -> None:
    assert names("FSRS-6,AVG", Protocol(recency=True)) == {"FSRS-6-recency", "AVG"}
    assert names("FSRS-6,FSRS-6-recency", Protocol(recency=True)) == {"FSRS-6-recency"}
    assert names("FSRS-6,AVG", fit="default") == {"FSRS-6-dry-run", "AVG"}
    assert names("SM2", Protocol(short=True)) == {"SM2-short"}
    (configuration,) = resolve_configurations("FSRS-6", Protocol(n_splits=3, gamma=2.0))
    assert configuration.name == "FSRS-6"
    assert configuration.protocol.n_splits == 3
    assert configuration.protocol.gamma == 2.0


@pytest.mark.parametrize(
    ("words", "protocol", "message"),
    [
        ("FSRS-66", Protocol(), "FSRS-6"),
        ("completely unheard of", Protocol(), "srs-eval models"),
        ("AVG-recency", Protocol(), "does not support recency"),
        ("FSRS-6-deck", Protocol(partitions="preset"), "contradicts"),
        ("FSRS-6-no_test_same_day", Protocol(), "-secs"),
        ("FSRS-6", Protocol(no_test_same_day=True), "--secs"),
        ("FSRS-6", Protocol(equalize_test_with_non_secs=True), "--secs"),
        ("FSRS-6-fallback_user", Protocol(), "fall back"),
        ("FSRS-6-dry-run-fallback_user", Protocol(), "fall back"),
        ("FSRS-6", Protocol(fallback_user=True), "--partitions"),
        ("FSRS-6", Protocol(n_splits=1), "n_splits"),
        (",", Protocol(), "No models were given"),
    ],
)
def test_senseless_names_and_flags_are_refused(
    words: str, protocol: Protocol, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        resolve_configurations(words, protocol)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("anki", "Anki"),
        ("anki-sm-2", "Anki-dry-run"),
        ("YOUR parameters", "FSRS-6-own"),
        ("FSRS-6-preset-fallback_user", "FSRS-6-preset-fallback_user"),
        ("fsrs-6-default-RECENCY", "FSRS-6-dry-run"),
        ("FSRS-6 defaults (FSRS-6-dry-run)", "FSRS-6-dry-run"),
        ("Average (AVG)", "AVG"),
    ],
)
def test_names_as_tables_show_them_resolve_in_any_case(written: str, name: str) -> None:
    assert [configuration.name for configuration in resolve_configurations(written)] == [name]


PROTOCOLS = [
    Protocol(),
    Protocol(secs=True, no_test_same_day=True),
    Protocol(recency=True, two_buttons=True),
    Protocol(partitions="deck", fallback_user=True),
]
NAMED = list(itertools.product(PROTOCOLS, ["trained", "default", "S0"]))


@pytest.mark.parametrize(("protocol", "fit"), slow_except([NAMED[k] for k in (0, 4, 8, 9)], NAMED))
def test_readable_names_resolve_to_their_configuration(protocol: Protocol, fit: str) -> None:
    for name in names(",".join(all_models()), protocol, fit) | set(list_all_names()):
        readable = readable_name(name)
        assert names(readable) == {name}
        assert names(readable.upper()) == {name}
        assert readable.lower() in GROUPS or names(readable.lower()) == {name}


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("fsrs6", "FSRS-6"),
        ("sm-2", "SM2"),
        ("dash-mcm", "DASH[MCM]"),
    ],
)
def test_misspelled_name_gets_a_proposal(written: str, name: str) -> None:
    with pytest.raises(InputError, match="Did you mean") as refused:
        resolve_configurations(written)
    proposed = str(refused.value).partition("Did you mean ")[2].rstrip("?").split(", ")
    assert name in proposed


def test_models_that_share_kernels_expect_equal_compile_times() -> None:
    models = all_models()
    sharing = [model for model in models.values() if model.cost.kernels_of]
    assert sharing
    for model in sharing:
        assert model.cost.kernels_of != model.name
        assert (
            models[model.cost.kernels_of].cost.seconds_to_compile == model.cost.seconds_to_compile
        )


def test_words_and_titles_are_distinct() -> None:
    listed = []
    for name in list_all_names():
        listed += resolve_configurations(name)
    assert len({configuration.words for configuration in listed}) == len(listed)
    (configuration,) = resolve_configurations("FSRS-6-dry-run")
    assert configuration.title == "FSRS-6 defaults (FSRS-6-dry-run)"
    assert resolve_configurations("FSRS-6-recency")[0].title == "FSRS-6 recency"
    assert resolve_configurations("FSRS-5-binary")[0].words == "FSRS-5 two buttons"
    assert resolve_configurations("FSRS-7")[0].words == "FSRS-7"
    assert resolve_configurations("AVG-secs")[0].words == "average secs"


def test_row_protocol_groups_configurations_by_their_rows() -> None:
    def rows(name: str) -> Protocol:
        return replace(
            resolve_configurations(name)[0].protocol.row_protocol(), known_decks_only=False
        )

    assert rows("FSRS-6") == rows("SM2-short") == rows("FSRS-6-binary") == Protocol()
    assert rows("FSRS-6-recency-deck") == rows("SM2-secs-equalize_test_with_non_secs") == Protocol()
    assert rows("SM2-short-secs") == rows("FSRS-6-secs") == rows("FSRS-7")
    assert rows("SM2-secs") == rows("FSRS-5-secs-no_test_same_day")
    assert rows("SM2-secs") == rows("SM2-secs-no_test_same_day")
    apart = ("FSRS-6", "FSRS-7", "SM2-secs", "FSRS-6-secs-no_test_same_day")
    apart += ("FSRS-6-train_equals_test", "FSRS-7-short-secs-train_equals_test")
    assert len({rows(name) for name in apart}) == len(apart)
    assert resolve_configurations("SM2")[0].protocol.row_protocol().known_decks_only


@settings(max_examples=20)
@given(st.text(max_size=40))
def test_any_text_resolves_or_is_refused_in_one_sentence(text: str) -> None:
    message = ""
    try:
        assert resolve_configurations(text)
    except InputError as error:
        message = str(error)
    assert len(message.splitlines()) <= 1 + len(text.splitlines())


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("AVG-secs", "AVG-short-secs"),
        ("DASH[ACT-R]-secs", "DASH[ACT-R]-short-secs"),
        ("FSRS-4.5-secs", "FSRS-4.5-short-secs"),
        ("FSRS-5-secs", "FSRS-5-secs-no_test_same_day"),
        ("FSRS-6-rs", "FSRS-rs"),
        ("FSRS-5-S0", "FSRS-5-pretrain"),
        ("SM2-short", "SM2-short"),
        ("LSTM-short-secs-equalize_test_with_non_secs",) * 2,
        ("LogisticRegression-short-secs-recency",) * 2,
    ],
)
def test_published_names_mean_what_their_files_hold(file: str, name: str) -> None:
    configuration = from_upstream_name(file)
    assert configuration is not None
    assert configuration.name == name


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("AVG", "AVG"),
        ("FSRS-6", "FSRS-6-short"),
        ("FSRS-6-dry-run", "FSRS-6-default-short"),
        ("FSRS-5-pretrain", "FSRS-5-S0-short"),
        ("FSRS-6-binary", "FSRS-6-binary-short"),
        ("FSRS-5-disable_short_term", "FSRS-5-disable_short_term"),
        ("FSRS-6-deck-fallback_user", "FSRS-6-short-deck"),
        ("FSRS-6-deck", "FSRS-6-short-deck-fallback_default"),
        ("FSRS-6-dry-run-preset", "FSRS-6-default-short-preset"),
        ("FSRS-7-short-secs-recency", "FSRS-7-short-secs-recency"),
        ("FSRS-7-dry-run-short-secs", "FSRS-7-default-short-secs"),
        ("FSRS-7-short-secs-recency-preset-fallback_user", "FSRS-7-short-secs-recency-preset"),
        ("DASH[ACT-R]-short-secs", "DASH[ACT-R]-short-secs"),
        ("Anki-dry-run", "Anki-default"),
        ("GRU", "GRU-39"),
        ("GRU-503-short-secs", "GRU-short-secs"),
        (
            "GRU-503-short-secs-equalize_test_with_non_secs",
            "GRU-short-secs-equalize_test_with_non_secs",
        ),
        ("GRU-P-short", "GRU-P-short"),
        (
            "LSTM-short-secs-equalize_test_with_non_secs",
            "LSTM-short-secs-duration-equalize_test_with_non_secs",
        ),
    ],
)
def test_names_of_2026_translate_both_ways(name: str, file: str) -> None:
    assert to_upstream_name(name, "2026") == file
    assert to_upstream_name(name, "2025") == name
    back = from_upstream_name(file, "2026")
    assert back is not None
    assert back.name == name


def test_names_of_2026_are_distinct() -> None:
    files = [
        to_upstream_name(configuration.name, "2026")
        for configuration in resolve_configurations("all")
    ]
    assert len(set(files)) == len(files)


@settings(max_examples=40)
@given(data=st.data())
def test_names_of_2026_of_any_configuration_round_trip(data: st.DataObject) -> None:
    """Draw a listed configuration, fitted to presets, to decks or not at all."""
    name = data.draw(st.sampled_from(list_all_names()))
    suffix = data.draw(
        st.sampled_from(["", "-preset", "-deck", "-preset-fallback_user", "-dry-run-deck"])
    )
    try:
        (configuration,) = resolve_configurations([name + suffix])
    except InputError:
        assert suffix  # which not every model can take
        reject()
    back = from_upstream_name(to_upstream_name(configuration.name, "2026"), "2026")
    assert back is not None
    assert back.name == configuration.name


def test_names_that_mean_something_else_in_2026() -> None:
    later_days = from_upstream_name("HLR-secs", "2026")
    assert later_days is not None
    assert later_days.name == "HLR-secs"
    assert from_upstream_name("LSTM-short-secs-equalize_test_with_non_secs", "2026") is None
    assert to_upstream_name("a model of one's own", "2026") == "a model of one's own"
    assert from_upstream_name("FSRS-6", "2026") is None  # without same-day reviews
    rust = from_upstream_name("FSRS-rs-short", "2026")
    assert rust is not None
    assert rust.name == "FSRS-rs"


def test_describe_ambiguity_of_published_names() -> None:
    lstm = "LSTM-short-secs-equalize_test_with_non_secs"
    assert "taken for HLR-short-secs" in describe_ambiguity("HLR-secs")
    assert "not taken for LSTM" in describe_ambiguity(lstm, "2026")
    for name in ("HLR", "HLR-short-secs", "FSRS-5-secs", "FSRS-6-secs", lstm, "no such model-secs"):
        assert describe_ambiguity(name) == ""
    for name in ("HLR-secs", "FSRS-6", lstm.replace("secs-", "secs-duration-")):
        assert describe_ambiguity(name, "2026") == ""


@pytest.mark.parametrize("name", ["LSTM", "LogisticRegression", "SBD", "FSRS-7", "GRU-503"])
def test_bare_upstream_name_is_no_configuration_of_ours(name: str) -> None:
    """Check models whose bare name is short for NAME-short-secs... here; a file names each flag."""
    assert [from_upstream_name(name, year) for year in NAMING_YEARS] == [None, None]
    assert from_upstream_name("GRU", "2026") is None


def test_published_fsrs_rs_is_not_taken_for_ours() -> None:
    assert from_upstream_name("FSRS-rs") is None


def test_every_golden_file_has_its_configuration() -> None:
    files = [file.stem for file in (golden_folder() / "expected").glob("*.jsonl")]
    configurations = {file: from_upstream_name(file) for file in files}
    assert [file for file, configuration in configurations.items() if configuration is None] == [
        "FSRS-rs"
    ]
    configured = [
        configuration.name for configuration in configurations.values() if configuration is not None
    ]
    assert len(set(configured)) == len(files) - 1


def test_lstm_refuses_flags_without_effect() -> None:
    for flag in ("recency", "no_train_same_day"):
        with pytest.raises(InputError, match=f"LSTM does not support {flag}"):
            resolve_configurations(f"LSTM-short-secs-{flag}")
    protocol = Protocol(secs=True, recency=True, no_train_same_day=True)
    (configuration,) = resolve_configurations("LSTM", protocol)
    assert configuration.name == "LSTM-short-secs-equalize_test_with_non_secs"
    assert resolve_configurations(
        "LSTM-short-secs-duration-equalize_test_with_non_secs"
    ) == resolve_configurations("LSTM")
