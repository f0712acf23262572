# Short names for commands. CMake builds and tests, with the presets of CMakePresets.json.
PRESET ?= release
BUILD  := build/$(PRESET)
NIGHTLY ?= OFF
# A nightly build compiles each source alone, which finds missing includes.
GROUPS_OF_SOURCES := $(if $(filter ON,$(NIGHTLY)),OFF,ON)
JOBS   ?= $(shell nproc)

.PHONY: help lint quick demo test asan tsan check nightly bench format clean
help:
	@echo "make demo    install packages, build, train a small Llama on the CPU and check every operation"
	@echo "make lint    check names, includes, text and generated pages; builds nothing"
	@echo "make quick   build without the compiler; run lint, unit tests, and kernel tests of the families that you changed"
	@echo "make test    install packages, build, run all tests"
	@echo "make asan    run tests without the compiler under the address and undefined-behaviour sanitizers"
	@echo "make tsan    run tests of the runtime, with NIGHTLY=ON also of the C ABI, under the thread sanitizer"
	@echo "make check   lint, asan, tsan and test; .ci/run runs this target"
	@echo "make nightly check, and the tests that repeat others in another form"
	@echo "make bench   time the kernels on the CPU (ligerdsl bench)"
	@echo "make format  format C++ sources with clang-format"
	@echo "make clean   remove the build trees"

.PHONY: build
TARGETS ?= all
build:
	cmake --preset $(PRESET) $(CONFIGURE)
	cmake --build $(BUILD) -j $(JOBS) --target $(TARGETS)

demo:
	.ci/install-packages build
	$(MAKE) build CONFIGURE="-DLIGERDSL_BUILD_TESTS=OFF" TARGETS="train_llama ligerdsl-command ligerdsl_compiler"
	$(BUILD)/bin/train_llama --steps 500 --loss-svg $(BUILD)/loss.svg
	$(BUILD)/bin/ligerdsl check --all

lint:
	.ci/install-packages test
	cmake --preset quick -DLIGERDSL_KERNEL_TEST_FAMILIES=none
	ctest --preset lint -j $(JOBS)

# Revision with which `make quick` compares the sources.
BASE ?= origin/main
quick:
	.ci/install-packages test
	cmake --preset quick -DLIGERDSL_KERNEL_TEST_FAMILIES="$$(.ci/changed-families $(BASE))"
	cmake --build --preset quick -j $(JOBS)
	ctest --preset quick -j $(JOBS)

test:
	.ci/install-packages test
	$(MAKE) build CONFIGURE="-DLIGERDSL_BUILD_TESTS=ON -DLIGERDSL_NIGHTLY_TESTS=$(NIGHTLY) -DLIGERDSL_COMPILE_IN_GROUPS=$(GROUPS_OF_SOURCES)"
	ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure

asan tsan:
	.ci/install-packages test
	cmake --preset $@ -DLIGERDSL_NIGHTLY_TESTS=$(NIGHTLY) -DLIGERDSL_BUILD_COMMAND=$(NIGHTLY) \
	  -DLIGERDSL_COMPILE_IN_GROUPS=$(GROUPS_OF_SOURCES)
	cmake --build --preset $@ -j $(JOBS)
	ctest --preset $@ -j $(JOBS)

check: lint asan tsan test

nightly:
	$(MAKE) check NIGHTLY=ON

bench: build
	$(BUILD)/bin/ligerdsl bench --device cpu

format:
	git ls-files '*.cpp' '*.h' | xargs clang-format -i

clean:
	rm -rf build
