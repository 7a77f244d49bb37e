"""Declare the arguments and options of commands, each as an annotated type.

A type is usually named after its option. If an option means something else to one command, that
type begins with the command's name or says what is meant. Commands set the defaults.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from srs_eval.cli.completion import complete_model, complete_models

_WHICH_REVIEWS = "Which reviews count"
_PROTOCOL = "Protocol flags, named as in srs-benchmark"
_HOW_IT_RUNS = "How it runs"
_OUTPUT = "Output"

# --- arguments and required options -------------------------------------------------

ResultFolders = Annotated[
    list[Path], typer.Argument(show_default=False, metavar="DIR...", help="Folders of results.")
]
MergeOut = Annotated[Path, typer.Option("--out", help="Write the merged results to this folder.")]
TakeWhatIsWhole = Annotated[
    bool,
    typer.Option("--take-what-is-whole", help="Skip damaged lines of journals."),
]
DatasetFolder = Annotated[
    str,
    typer.Argument(
        show_default=False,
        metavar="DIR",
        help=(
            "Folder of a data set. The names anki-revlogs-10k and FSRS-Anki-20k are looked up in "
            "your data folder."
        ),
    ),
]
ParticipantFiles = Annotated[
    list[Path],
    typer.Argument(
        show_default=False,
        metavar="FILE...",
        help="Collections, packages, research exports or CSV files, one for each participant.",
    ),
]
DatasetOut = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="DIR",
        help=(
            "Write the data set to this new folder. DIR-mapping.csv beside it records which "
            "file became which user."
        ),
    ),
]
ReportFolders = Annotated[
    list[Path],
    typer.Argument(
        show_default=False,
        metavar="DIR...",
        help="Folders of results, written by `srs-eval batch` or by srs-benchmark.",
    ),
]
AuditDataset = Annotated[
    str,
    typer.Argument(
        show_default=False, help="Folder of a data set, or the name of a downloaded one."
    ),
]
ModelNames = Annotated[
    list[str] | None,
    typer.Argument(
        show_default=False,
        metavar="[check|pretrain|vectors|weights] NAME|FILE",
        autocompletion=complete_model,
        help=(
            "Models to describe. Without a name, all are listed. `check` finds mistakes in "
            "models of srs-eval or in those of your own file. `pretrain` trains the model of a "
            "file on many users. `vectors` prints reference vectors of FSRS-6 or FSRS-7 as JSON, "
            "for other implementations. `weights` lists RWKV's files and where they are."
        ),
    ),
]
CollectionPath = Annotated[
    Path | None,
    typer.Argument(
        show_default=False,
        help=(
            "Collection, package, research export, CSV file, or folder of a data set (with --user)."
        ),
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="DIR",
        help=(
            "Evaluate this data set: a folder in the anki-revlogs-10k layout, or the name of "
            "a downloaded data set."
        ),
    ),
]

ConfigInit = Annotated[
    bool,
    typer.Option("--init", help="Write a settings file that explains each setting."),
]

# --- which reviews count ------------------------------------------------------------

Rows = Annotated[
    Literal["benchmark", "anki"],
    typer.Option(
        "--rows",
        rich_help_panel=_WHICH_REVIEWS,
        metavar="benchmark|anki",
        help=(
            "Choose reviews by the rule of the published figures (benchmark) or by the rule of "
            "Anki's own optimizer (anki)."
        ),
    ),
]
User = Annotated[
    int | None,
    typer.Option(
        "--user", rich_help_panel=_WHICH_REVIEWS, help="Read this user of a data-set folder."
    ),
]
Decks = Annotated[
    list[str] | None,
    typer.Option(
        "--deck",
        rich_help_panel=_WHICH_REVIEWS,
        help="Use only this deck and its subdecks. Repeatable.",
    ),
]
Presets = Annotated[
    list[str] | None,
    typer.Option(
        "--preset",
        rich_help_panel=_WHICH_REVIEWS,
        help="Use only decks with this preset. Repeatable.",
    ),
]
Timezone = Annotated[
    str | None,
    typer.Option(
        "--timezone",
        rich_help_panel=_WHICH_REVIEWS,
        help=(
            "Use this time zone to decide when days begin: a zone such as Asia/Tokyo, UTC-7, "
            "or local."
        ),
    ),
]
Rollover = Annotated[
    int | None,
    typer.Option(
        "--rollover", rich_help_panel=_WHICH_REVIEWS, help="Begin days at this hour, 0 to 23."
    ),
]
Users = Annotated[
    str | None,
    typer.Option(
        "--users",
        rich_help_panel=_WHICH_REVIEWS,
        metavar="1-1000,1005",
        help="Use only these users: ids and ranges. By default, all are used.",
    ),
]
MaxUserId = Annotated[
    int | None,
    typer.Option(
        "--max-user-id", rich_help_panel=_WHICH_REVIEWS, help="Leave out users with a higher id."
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        "--shard",
        rich_help_panel=_WHICH_REVIEWS,
        metavar="K/N",
        help="Use only every Nth user, starting with the Kth: 3/16 is the third of 16 parts.",
    ),
]

# --- protocol flags -----------------------------------------------------------------

Secs = Annotated[
    bool,
    typer.Option(
        "--secs", rich_help_panel=_PROTOCOL, help="Measure intervals in fractions of a day."
    ),
]
Clock = Annotated[
    Literal["seconds", "study-days", "days"],
    typer.Option(
        "--clock",
        rich_help_panel=_PROTOCOL,
        metavar="seconds|study-days|days",
        help=(
            "Measure FSRS-7's intervals in seconds, study days (23 to 25 hours long if "
            "--timezone is given) or whole days."
        ),
    ),
]
Short = Annotated[
    bool,
    typer.Option(
        "--short", rich_help_panel=_PROTOCOL, help="Include same-day reviews in histories."
    ),
]
Recency = Annotated[
    bool,
    typer.Option(
        "--recency", rich_help_panel=_PROTOCOL, help="Give newer reviews more weight in training."
    ),
]
TwoButtons = Annotated[
    bool,
    typer.Option(
        "--two_buttons",
        rich_help_panel=_PROTOCOL,
        help="Count Hard and Easy as Good. (--binary means the same.)",
    ),
]
Default = Annotated[
    bool,
    typer.Option(
        "--default",
        rich_help_panel=_PROTOCOL,
        help="Use default parameters and train nothing. (--dry means the same.)",
    ),
]
S0 = Annotated[
    bool,
    typer.Option(
        "--S0",
        rich_help_panel=_PROTOCOL,
        help="Fit only the initial stabilities. (--pretrain means the same.)",
    ),
]
Partitions = Annotated[
    Literal["none", "deck", "preset"],
    typer.Option(
        "--partitions",
        rich_help_panel=_PROTOCOL,
        metavar="none|deck|preset",
        help="Fit parameters for each deck or preset separately.",
    ),
]
FallbackUser = Annotated[
    bool,
    typer.Option(
        "--fallback_user",
        rich_help_panel=_PROTOCOL,
        help=(
            "With --partitions: where a deck or preset has too few reviews to train on, use the "
            "parameters that were fitted to all of the user's training reviews."
        ),
    ),
]
TrainEqualsTest = Annotated[
    bool,
    typer.Option(
        "--train_equals_test",
        rich_help_panel=_PROTOCOL,
        help="Train on the reviews that are evaluated.",
    ),
]
NoTestSameDay = Annotated[
    bool,
    typer.Option(
        "--no_test_same_day",
        rich_help_panel=_PROTOCOL,
        help="With --secs: do not evaluate same-day reviews.",
    ),
]
NoTrainSameDay = Annotated[
    bool,
    typer.Option(
        "--no_train_same_day",
        rich_help_panel=_PROTOCOL,
        help="With --secs: do not train on same-day reviews.",
    ),
]
EqualizeTestWithNonSecs = Annotated[
    bool,
    typer.Option(
        "--equalize_test_with_non_secs",
        rich_help_panel=_PROTOCOL,
        help="With --secs: evaluate only the reviews that would be evaluated without --secs.",
    ),
]
DisableShortTerm = Annotated[
    bool,
    typer.Option(
        "--disable_short_term",
        rich_help_panel=_PROTOCOL,
        help="Use FSRS-5 without its same-day formulas.",
    ),
]
SchedPenalties = Annotated[
    bool,
    typer.Option(
        "--sched_penalties",
        rich_help_panel=_PROTOCOL,
        help="Train FSRS-7 with penalties for intervals that are very short or grow very fast.",
    ),
]
NSplits = Annotated[
    int,
    typer.Option("--n_splits", rich_help_panel=_PROTOCOL, help="Evaluate on this many test folds."),
]
Split = Annotated[
    Literal["time", "cards", "users"],
    typer.Option(
        "--split",
        rich_help_panel=_PROTOCOL,
        metavar="time|cards",
        help=(
            "Cut the test folds by time, or deal cards into them at random (cards): models then "
            "predict cards that they were not trained on."
        ),
    ),
]
BatchSplit = Annotated[
    Literal["time", "cards", "users"],
    typer.Option(
        "--split",
        rich_help_panel=_PROTOCOL,
        metavar="time|cards|users",
        help=(
            "Cut the test folds by time, or deal cards into them at random (cards): models then "
            "predict cards that they were not trained on. Or deal users into parts at random "
            "(users): models of your own that define a `pretrain` function are first trained on "
            "the users of the other parts; the folds are still cut by time."
        ),
    ),
]
TrainUntil = Annotated[
    str,
    typer.Option(
        "--train-until",
        rich_help_panel=_PROTOCOL,
        metavar="DATE|DAYS",
        help=(
            "Train on the reviews before a date such as 2024-01-31 and evaluate all others, in "
            "one fold. Data sets have no dates: give the number of days since each user's first "
            "review."
        ),
    ),
]
TrainMonths = Annotated[
    int,
    typer.Option(
        "--train-months",
        rich_help_panel=_PROTOCOL,
        metavar="N",
        min=0,
        show_default=False,
        help=(
            "Train only on the last N months before --train-until or, without it, before each "
            "test fold."
        ),
    ),
]
BatchSize = Annotated[
    int,
    typer.Option(
        "--batch_size", rich_help_panel=_PROTOCOL, help="Train in batches of this many reviews."
    ),
]
MaxSeqLen = Annotated[
    int,
    typer.Option(
        "--max_seq_len",
        rich_help_panel=_PROTOCOL,
        help=(
            "Train on histories of up to this many reviews (N). All reviews of a card after the "
            "first 2 N are ignored."
        ),
    ),
]
Gamma = Annotated[
    float,
    typer.Option(
        "--gamma",
        rich_help_panel=_PROTOCOL,
        help=(
            "Pull parameters towards their starting values with this strength (FSRS-5, FSRS-6, "
            "FSRS-7)."
        ),
    ),
]
TrainingSeed = Annotated[
    int,
    typer.Option(
        "--seed",
        rich_help_panel=_PROTOCOL,
        min=0,
        help=(
            "Use this random seed (order of batches, random starts). With 0, the random numbers "
            "are those behind the published figures."
        ),
    ),
]
Seeds = Annotated[
    int,
    typer.Option(
        "--seeds",
        rich_help_panel=_PROTOCOL,
        metavar="K",
        min=1,
        help=(
            "Use K seeds for each configuration whose training uses random numbers, starting "
            "at --seed."
        ),
    ),
]
Sm2Target = Annotated[
    float,
    typer.Option(
        "--sm2-target",
        rich_help_panel=_PROTOCOL,
        help="Assume that SM-2's intervals aim at this retention.",
    ),
]

# --- how it runs --------------------------------------------------------------------

_MODELS = typer.Option(
    "--models",
    rich_help_panel=_HOW_IT_RUNS,
    metavar="A,B|fast|all",
    autocompletion=complete_models,
    help=(
        "Evaluate these models: names, aliases and groups, separated by commas. `srs-eval"
        " models` lists them."
    ),
)
Models = Annotated[str, _MODELS]
BatchModels = Annotated[str | None, _MODELS]
ModelFile = Annotated[
    list[Path] | None,
    typer.Option(
        "--model-file",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="FILE",
        help="Load your own models from a Python file, and run its code. Repeatable.",
    ),
]
Features = Annotated[
    Path | None,
    typer.Option(
        "--features",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="FILE",
        help=(
            "Give your own models a table: CSV or parquet with card_id or note_id (and "
            "user_id for a data set) and columns of numbers."
        ),
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="DIR|FILE",
        help=("Read weights from a folder, RWKV's file, or a file that `models pretrain` wrote."),
    ),
]
SeenUsers = Annotated[
    bool,
    typer.Option(
        "--seen-users",
        rich_help_panel=_HOW_IT_RUNS,
        help=(
            "Evaluate your own model even on users that its --weights were trained on. Its figures "
            "are then optimistic."
        ),
    ),
]
PretrainDataset = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="DIR",
        help="After `pretrain`: train on this data set.",
    ),
]
PretrainUsers = Annotated[
    str | None,
    typer.Option(
        "--users",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="1-5000",
        help="After `pretrain`: train on these users.",
    ),
]
PretrainSeed = Annotated[
    int,
    typer.Option(
        "--seed",
        rich_help_panel=_HOW_IT_RUNS,
        min=0,
        help="After `pretrain`: use this random seed.",
    ),
]
PretrainOut = Annotated[
    Path | None,
    typer.Option(
        "--out",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="FILE",
        help="After `pretrain`: write the weights to this file.",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        rich_help_panel=_HOW_IT_RUNS,
        help="Run LSTM and your own torch models on this device: cpu, cuda, mps or xpu.",
    ),
]
Label = Annotated[
    str,
    typer.Option(
        "--label",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="NAME",
        help=(
            "Add NAME to the names of configurations (FSRS-6-NAME) instead of the settings that "
            "differ from the defaults (FSRS-6-gamma-0.5)."
        ),
    ),
]
Setup = Annotated[
    Path | None,
    typer.Option(
        "--setup",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="LEDGER",
        help=(
            "Train models with the hyperparameters in an audit's ledger. The names of these models "
            "end in -tuned."
        ),
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        rich_help_panel=_HOW_IT_RUNS,
        min=0,
        help="Use this many worker processes. By default, one for each core.",
    ),
]
Reference = Annotated[
    str,
    typer.Option(
        "--reference",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="NAME",
        autocompletion=complete_model,
        help="Compare models with this one as well as with the best.",
    ),
]
NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache",
        rich_help_panel=_HOW_IT_RUNS,
        help="Ignore stored results, and store no new ones.",
    ),
]
Equivalence = Annotated[
    float | None,
    typer.Option(
        "--equivalence",
        rich_help_panel=_HOW_IT_RUNS,
        help="Ignore differences in log loss up to this size. By default, config.toml decides.",
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="ENGINE",
        help="Run the batch here or on Dask: local, dask-local or dask://HOST:PORT.",
    ),
]
Fresh = Annotated[
    bool,
    typer.Option("--fresh", rich_help_panel=_HOW_IT_RUNS, help="Delete earlier results first."),
]
Redo = Annotated[
    list[str] | None,
    typer.Option(
        "--redo",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="NAME",
        help="Delete one configuration's results and evaluate it again. Repeatable.",
    ),
]
Merge = Annotated[
    list[Path] | None,
    typer.Option(
        "--merge",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="DIR",
        help="Begin with the results of another batch folder. Repeatable.",
    ),
]
Repo = Annotated[
    str | None,
    typer.Option(
        "--from",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="OWNER/NAME",
        help="Download from this repository on the Hugging Face hub.",
    ),
]
Trials = Annotated[
    int,
    typer.Option(
        "--trials",
        rich_help_panel=_HOW_IT_RUNS,
        min=1,
        help=(
            "Try this many sets of hyperparameters for each configuration, as well as the "
            "published set."
        ),
    ),
]
Repeats = Annotated[
    int,
    typer.Option(
        "--repeats",
        rich_help_panel=_HOW_IT_RUNS,
        min=1,
        help="Evaluate with this many seeds, if the training uses random numbers.",
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        rich_help_panel=_HOW_IT_RUNS,
        min=0,
        help="Start the random search from this seed.",
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="DIR",
        help="Show what changed since another run, whose results are in this folder.",
    ),
]
Means = Annotated[
    Literal["common", "each"],
    typer.Option(
        "--means",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="common|each",
        help=(
            "Average over the users that all configurations have (common), or over each "
            "configuration's own users (each)."
        ),
    ),
]
ReportModels = Annotated[
    str | None,
    typer.Option(
        "--models",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="A,B",
        autocompletion=complete_models,
        help="Include only these configurations, named as in tables or files, or these groups.",
    ),
]
ReportReference = Annotated[
    str | None,
    typer.Option(
        "--reference",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="NAME",
        autocompletion=complete_model,
        help="Compare configurations with this one instead of the best.",
    ),
]
Matrix = Annotated[
    str | None,
    typer.Option(
        "--matrix",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="A,B,C",
        help="Show these configurations in matrices, in this order.",
    ),
]
Digits = Annotated[
    int,
    typer.Option(
        "--digits",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="N",
        min=0,
        max=12,
        help="Show this many decimals; 0: as many as confidence intervals justify, at least three.",
    ),
]
Metric = Annotated[
    str,
    typer.Option(
        "--metric",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="NAME",
        help="Use this metric to compare models in pairs, by size of collection, or by user.",
    ),
]
Columns = Annotated[
    str,
    typer.Option(
        "--columns",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="A,B",
        help=(
            "Show these columns in tables: metrics of result files (ICI, smECE, ...) or seconds."
        ),
    ),
]
Average = Annotated[
    str,
    typer.Option(
        "--average",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="A,B",
        help=(
            "Show these averages side by side: global, user, deck, card. All but “user” need "
            "predictions in raw/."
        ),
    ),
]
ComparedParams = Annotated[
    list[str] | None,
    typer.Option(
        "--params",
        rich_help_panel=_HOW_IT_RUNS,
        metavar='"0.21, 1.29, ..."',
        help=("Compare parameters of your own: 17, 19 or 21 numbers, or FSRS-7's 34. Repeatable."),
    ),
]
Predictions = Annotated[
    Path | None,
    typer.Option(
        "--predictions",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="FILE",
        help=(
            "Compare predictions of your own: CSV or parquet with review_id (or card_id and "
            "time_ms), p, model."
        ),
    ),
]
BatchPredictions = Annotated[
    Path | None,
    typer.Option(
        "--predictions",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="FILE",
        help=(
            "Compare predictions of your own for many users: parquet or CSV with user, "
            "review_th, p."
        ),
    ),
]
Name = Annotated[
    str,
    typer.Option(
        "--name",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="NAME",
        help="Give the predictions of --predictions this name.",
    ),
]
Question = Annotated[
    Literal[
        "parameters",
        "split",
        "often",
        "health",
        "hard",
        "steps",
        "noise",
        "retention",
        "ignore",
        "kinds",
        "failed",
        "next",
        "difficulty",
        "first",
        "reschedule",
        "fsrs-7",
        "models",
        "standing",
        "wrong",
        "all",
    ],
    typer.Option(
        "--question",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="parameters|split|often|health|hard|steps|noise|retention|ignore|kinds|failed|next|difficulty|first|reschedule|fsrs-7|models|standing|wrong|all",
        help=(
            "Answer this question. “all” answers parameters, split, often, health, hard, steps, "
            "noise, retention and wrong; ask for the others by name."
        ),
    ),
]
HasFsrs7 = Annotated[
    bool | None,
    typer.Option(
        "--fsrs-7/--no-fsrs-7",
        rich_help_panel=_HOW_IT_RUNS,
        help=(
            "Assume that your flashcard program can run FSRS-7, which Anki cannot yet. By default, "
            "config.toml decides. Forks of Anki that can run it are recognised."
        ),
    ),
]
Retention = Annotated[
    str | None,
    typer.Option(
        "--retention",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="0.8,0.85,0.9",
        help=("Simulate these desired retentions, 0.5 to 0.995. By default, 0.70, 0.71 ... 0.99."),
    ),
]
ScheduledRetention = Annotated[
    str | None,
    typer.Option(
        "--retention",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="0.7,0.9,0.97",
        help="Schedule for these desired retentions. By default, 0.7, 0.9 and 0.97.",
    ),
]
Histories = Annotated[
    int,
    typer.Option(
        "--histories",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="N",
        min=1,
        help="Ask models about at most this many reviews, spread evenly over time.",
    ),
]
Days = Annotated[
    int, typer.Option("--days", rich_help_panel=_HOW_IT_RUNS, help="Simulate this many days.")
]
New = Annotated[
    int | None,
    typer.Option(
        "--new",
        rich_help_panel=_HOW_IT_RUNS,
        help="Learn this many new cards a day; by default, as many as you learned lately.",
    ),
]
After = Annotated[
    int,
    typer.Option(
        "--after",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="DAYS",
        help="Begin after this many days without reviews.",
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="MIN",
        help="Count the days that take more than this many minutes.",
    ),
]
Params = Annotated[
    str | None,
    typer.Option(
        "--params",
        rich_help_panel=_HOW_IT_RUNS,
        metavar='"0.21, 1.29, ..."',
        help=(
            "Use these parameters instead of your current ones: 17, 19 or 21 numbers, or "
            "FSRS-7's 34."
        ),
    ),
]
WorkloadModel = Annotated[
    Literal["FSRS-6", "FSRS-7"],
    typer.Option(
        "--model",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="FSRS-6|FSRS-7",
        help="Schedule with this model, optimized.",
    ),
]
Assume = Annotated[
    Literal["advised", "current", "optimized"],
    typer.Option(
        "--assume",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="advised|current|optimized",
        help="Parameters behind each desired retention: those that srs-eval advises (optimized "
        "where it advises new ones, otherwise your current ones), your current ones, or optimized "
        "ones in all presets.",
    ),
]
States = Annotated[
    Literal["history", "stored"],
    typer.Option(
        "--states",
        rich_help_panel=_HOW_IT_RUNS,
        metavar="history|stored",
        help=("Take each card's memory state from its history, or as Anki stored it."),
    ),
]

# --- output -------------------------------------------------------------------------

Html = Annotated[
    str | None,
    typer.Option(
        "--html",
        rich_help_panel=_OUTPUT,
        metavar="FILE|-",
        help="Write a page that opens offline to a file, or to stdout with -.",
    ),
]
Md = Annotated[
    str | None,
    typer.Option(
        "--md",
        rich_help_panel=_OUTPUT,
        metavar="FILE|-",
        help="Write Markdown to a file, or to stdout with -.",
    ),
]
Csv = Annotated[
    Path | None,
    typer.Option(
        "--csv", rich_help_panel=_OUTPUT, metavar="DIR", help="Write every table to a folder."
    ),
]
Png = Annotated[
    Path | None,
    typer.Option(
        "--png",
        rich_help_panel=_OUTPUT,
        metavar="DIR",
        help="Write every picture as PNG to a folder.",
    ),
]
Tex = Annotated[
    Path | None,
    typer.Option(
        "--tex",
        rich_help_panel=_OUTPUT,
        metavar="DIR",
        help="Write tables for a paper in LaTeX to a folder.",
    ),
]
Svg = Annotated[
    Path | None,
    typer.Option(
        "--svg",
        rich_help_panel=_OUTPUT,
        metavar="DIR",
        help="Write every picture as SVG to a folder.",
    ),
]
Pdf = Annotated[
    Path | None,
    typer.Option(
        "--pdf",
        rich_help_panel=_OUTPUT,
        metavar="DIR",
        help="Write every picture as PDF to a folder.",
    ),
]
Inches = Annotated[
    str | None,
    typer.Option(
        "--inches",
        rich_help_panel=_OUTPUT,
        metavar="6.5|6.5x4",
        help=(
            "Draw pictures of this width and height. Without a height, they are as tall as "
            "their content needs."
        ),
    ),
]
Json = Annotated[
    str | None,
    typer.Option(
        "--json",
        rich_help_panel=_OUTPUT,
        metavar="FILE|-",
        help="Write JSON to a file, or to stdout with -.",
    ),
]
RankingCsv = Annotated[
    str | None,
    typer.Option(
        "--csv",
        rich_help_panel=_OUTPUT,
        metavar="FILE|-",
        help="Write CSV to a file, or to stdout with -.",
    ),
]
Brief = Annotated[
    bool,
    typer.Option(
        "--short", rich_help_panel=_OUTPUT, help="Print a few lines of Markdown to post in a forum."
    ),
]
Open = Annotated[
    bool, typer.Option("--open", rich_help_panel=_OUTPUT, help="Open the page in the browser.")
]
AllModels = Annotated[
    bool,
    typer.Option("--all-models", rich_help_panel=_OUTPUT, help="Print all models, not only ten."),
]
Names = Annotated[
    Literal["2025", "2026"],
    typer.Option(
        "--names",
        rich_help_panel=_OUTPUT,
        metavar="2025|2026",
        help=(
            "Spell the names of configurations in files as srs-benchmark did in 2025, or as it has "
            "since 2026."
        ),
    ),
]
Anonymous = Annotated[
    bool,
    typer.Option(
        "--anonymous",
        rich_help_panel=_OUTPUT,
        help="Number decks and presets instead of naming them, and do not name the file.",
    ),
]
Details = Annotated[
    bool,
    typer.Option(
        "--details", rich_help_panel=_OUTPUT, help="Print the evidence behind the answers."
    ),
]
Raw = Annotated[
    bool, typer.Option("--raw", rich_help_panel=_OUTPUT, help="Save every prediction as parquet.")
]
File = Annotated[
    bool,
    typer.Option(
        "--file", rich_help_panel=_OUTPUT, help="Save every prediction with its history as text."
    ),
]
Plot = Annotated[
    bool,
    typer.Option(
        "--plot",
        rich_help_panel=_OUTPUT,
        help="Save a picture of calibration for each user and configuration.",
    ),
]
BatchOut = Annotated[
    Path, typer.Option("--out", rich_help_panel=_OUTPUT, help="Write results to this folder.")
]
AuditOut = Annotated[
    Path,
    typer.Option(
        "--out", rich_help_panel=_OUTPUT, help="Write the audit's results to this folder."
    ),
]
