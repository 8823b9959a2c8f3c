# Each target sets up .venv by itself; a second set-up is instant.
.PHONY: setup demo test test-all check format bench suites reference docs build
BIN := .venv/bin
# rclpy's tests, by it, where tools/ros2_venv was run.
ROS2_TESTS := ! test -e .venv-ros2/.installed || OMP_NUM_THREADS=1 .venv-ros2/bin/ros python -m pytest \
	tests/sim2real/transport tests/sim2real/ros2 -k ros2
# What a robot loads runs on the Python of ROS 2 Humble.
DEPLOYED := sim2real robots $(addprefix robo_rl/,api bundle cli config core language)
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --dist worksteal

setup:
	@tools/setup dev

demo:
	@tools/setup all
	$(BIN)/robo-rl demo

test: setup
	$(PYTEST) -m "not slow"
	$(ROS2_TESTS)

test-all: setup
	@tools/ros2_venv || echo "going on without rclpy: its tests are skipped"
	$(PYTEST)
	$(ROS2_TESTS)

check: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/pyright --pythonpath $(BIN)/python --pythonversion 3.10 $(DEPLOYED)
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# Status 2: a script for a GPU, and there is none.
bench: setup
	for script in benchmarks/[!_]*.py; do $(BIN)/python $$script || test $$? -eq 2 || exit 1; done

# Hours; goes on where it was stopped.
suites: setup
	$(BIN)/robo-rl bench all
	$(BIN)/robo-rl bench --page docs/results/index.md

# The pages of docs/reference that are written from the code.
reference: setup
	$(BIN)/python -m tools.reference

# The site, in build/site.
docs: reference
	@tools/setup docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

build: setup
	$(BIN)/python -m build
