"""`python -m srs_eval.pretraining`."""

from srs_eval.pretraining.train import main

if __name__ == "__main__":
    main()
