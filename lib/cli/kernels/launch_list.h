// Lists a call's launches by running it with kernels and matmuls that record launches instead of
// executing them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/cli/kernels/recording_context.h"
#include "program/serialize.h"
#include "runtime/kernel/matmul.h"

namespace ligerdsl::cli {

struct LaunchList {
  struct Launch {
    int kernel;  // index in the context's recorded kernels, or -1 for a matrix library's matmul
    runtime::Product product;
    runtime::Grid grid;
    std::vector<uint64_t> slots;  // argument slots of a kernel
    int64_t m = 0, n = 0, k = 0;  // sizes of a matmul
  };
  bool open = false;  // true while launches are recorded, not executed
  std::vector<Launch> launches;
};

// Wraps a kernel. Records launches while the list is open, and otherwise executes them.
class ListedKernel final : public runtime::LoadedKernel {
 public:
  // `slot_count`: number of the kernel's argument slots.
  ListedKernel(std::shared_ptr<runtime::LoadedKernel> other, int number, size_t slot_count,
               LaunchList* list)
      : other_(std::move(other)), number_(number), slot_count_(slot_count), list_(list) {
    artifact_ = other_->artifact();
    resources_ = other_->resources();
  }
  void launch(const uint64_t* slots, const runtime::Grid& grid, runtime::Stream stream) override {
    if (!list_->open) return other_->launch(slots, grid, stream);
    list_->launches.push_back({number_, {}, grid, {slots, slots + slot_count_}});
  }
  runtime::Grid largest_grid() const override { return other_->largest_grid(); }

 private:
  std::shared_ptr<runtime::LoadedKernel> other_;
  int number_;
  size_t slot_count_;
  LaunchList* list_;
};

class ListedMatmul final : public runtime::Matmul {
 public:
  // `other` is null if the GPU is not present.
  ListedMatmul(std::shared_ptr<runtime::Matmul> other, LaunchList* list)
      : other_(std::move(other)), list_(list) {}
  size_t workspace_bytes() const override {
    return other_ ? other_->workspace_bytes() : runtime::kCublasLtWorkspaceBytes;
  }
  void prepare(runtime::Product product, const runtime::Matrix& a, const runtime::Matrix& b,
               const runtime::Matrix& c) override {
    if (other_) other_->prepare(product, a, b, c);
  }

 protected:
  void run(runtime::Product product, const Sizes& sizes, const runtime::Matrix& a,
           const runtime::Matrix& b, float beta, const runtime::Matrix& c, void* workspace,
           runtime::Stream stream) override {
    if (list_->open)
      list_->launches.push_back({-1, product, {}, {}, sizes.m, sizes.n, sizes.k});
    else if (other_)
      other_->multiply(product, a, b, beta, c, workspace, stream);
    else
      runtime::fail(runtime::Status::internal_error,
                    "a matmul was executed for a GPU that is not present");
  }

 private:
  std::shared_ptr<runtime::Matmul> other_;
  LaunchList* list_;
};

// Context of type Base that lists the launches of its kernels and matmuls.
template <class Base>
class Listing final : public Base {
 public:
  using Base::Base;
  std::shared_ptr<runtime::LoadedKernel> load(const std::string& program,
                                              const program::CompileOptions& options) override {
    auto kernel = Base::load(program, options);
    size_t slots = 0;
    const program::Program parsed = program::parseProgram(program);
    for (const program::Argument& argument : parsed.arguments)
      slots += program::slotCount(parsed.values[argument.value]);
    return std::make_shared<ListedKernel>(
        std::move(kernel), static_cast<int>(Base::recorded.size()) - 1, slots, &list);
  }
  std::shared_ptr<runtime::Matmul> matmul() override {
    const bool away = Base::machine().is_gpu() && Base::device().is_cpu();
    return std::make_shared<ListedMatmul>(away ? nullptr : Base::matmul(), &list);
  }

  LaunchList list;
};

}  // namespace ligerdsl::cli
