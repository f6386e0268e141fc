"""`python -m webhook` is `floorkeeper`."""

from webhook.cli import main

if __name__ == "__main__":
    main()
