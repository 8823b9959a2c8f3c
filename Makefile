# Each target sets up .venv by itself; a second set-up is instant.
.PHONY: setup demo test test-all check format bench suites build
BIN := .venv/bin
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --dist worksteal

setup:
	@tools/setup dev

demo:
	@tools/setup all
	$(BIN)/robo-rl demo

test: setup
	$(PYTEST) -m "not slow"

test-all: setup
	$(PYTEST)

check: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: setup
	for script in benchmarks/[!_]*.py; do $(BIN)/python $$script || exit 1; done

# Hours; goes on where it was stopped.
suites: setup
	$(BIN)/robo-rl bench all
	$(BIN)/robo-rl bench --page docs/results.md

build: setup
	$(BIN)/python -m build
