"""`python -m tools.pretraining`."""

from tools.pretraining.train import main

if __name__ == "__main__":
    main()
