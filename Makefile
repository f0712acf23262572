# A menu; CMake does the work (see CMakePresets.json).
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
	@echo "make quick   build without the compiler; lint, unit tests, kernel tests of the families that you changed"
	@echo "make test    install packages, build, run all tests"
	@echo "make asan    tests without the compiler under the address and undefined-behaviour sanitizers"
	@echo "make tsan    tests of the runtime under the thread sanitizer; with NIGHTLY=ON also of the C ABI"
	@echo "make check   asan, tsan and test: what .ci/run runs"
	@echo "make nightly make check with the tests that repeat others"
	@echo "make bench   time the kernels on the CPU (ligerdsl bench)"
	@echo "make format  clang-format over the sources"
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

# BASE: the revision to which the changes are compared.
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
