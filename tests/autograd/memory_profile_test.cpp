// MemoryProfile: whose bytes they are, when they were most, and what backward holds at its peak.
#include <capstan/autograd/create.h>
#include <capstan/autograd/memory_profile.h>
#include <capstan/autograd/tape.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "support/expect.h"
#include "support/makers.h"
#include "support/plain_ops.h"

namespace capstan {
namespace {

using test::error_of;
using test::number;
using test::plain::add;
using test::plain::mul;
using test::plain::scale;
using test::plain::sum;

constexpr Index elements = 1000, bytes = 8 * elements;

Tensor large() { return ones({elements}, DType::f64); }

/// The entry of an op; all zero if there is none.
MemoryProfile::Entry entry(const MemoryProfile& profile, std::string_view op, bool backward = false) {
  for (const MemoryProfile::Entry& each : profile.entries())
    if (each.op == op && each.backward == backward) return each;
  return {};
}

TEST(MemoryProfile, CountsWhatAnOpMakesWhileItLives) {
  const Tensor x = large();
  MemoryProfile profile;
  std::optional<Tensor> first = scale(x, 2), second = scale(x, 3);
  MemoryProfile::Entry made = entry(profile, "plain_scale");
  EXPECT_EQ(made.storages, 2);
  EXPECT_EQ(made.bytes, 2 * bytes);
  EXPECT_EQ(made.live, 2 * bytes);
  first.reset();
  const Tensor copy = *second;  // shares the storage
  made = entry(profile, "plain_scale");
  EXPECT_EQ(made.live, bytes);
  EXPECT_EQ(made.peak, 2 * bytes);
  EXPECT_EQ(profile.live(), bytes);
  EXPECT_EQ(profile.peak(), 2 * bytes);
  EXPECT_EQ(entry(profile, "").storages, 0);
}

TEST(MemoryProfile, KnowsWhoHeldTheMemoryAtThePeak) {
  MemoryProfile profile;
  {
    const Tensor x = large();
    const Tensor y = scale(x, 2);
    const Tensor z = mul(x, y);
    EXPECT_EQ(profile.peak(), 3 * bytes);
  }
  std::optional<Tensor> x = large();
  for (int i = 0; i < 5; ++i) x = scale(*x, 2);
  EXPECT_EQ(profile.peak(), 3 * bytes);
  EXPECT_EQ(entry(profile, "plain_scale").at_peak, bytes);
  EXPECT_EQ(entry(profile, "plain_scale").peak, 2 * bytes);  // later, old and new value at once
  EXPECT_EQ(entry(profile, "plain_mul").at_peak, bytes);
  EXPECT_EQ(entry(profile, "").at_peak, bytes);
  Index sum_of_entries = 0;
  for (const MemoryProfile::Entry& each : profile.entries()) sum_of_entries += each.at_peak;
  EXPECT_EQ(sum_of_entries, profile.peak());
}

TEST(MemoryProfile, ARulesOwnOpsCountForTheRule) {
  Tape tape;
  const Tensor x = tape.watch(large());
  const Tensor loss = sum(test::plain::tanh(x));
  MemoryProfile profile;
  const Gradients gradients = tape.backward(loss);
  // 1 − y² and its product with dy: four passes, of which the last one is left. (dy is a view of the root's 1.)
  const MemoryProfile::Entry rule = entry(profile, "plain_tanh", true);
  EXPECT_EQ(rule.bytes, 4 * bytes);
  EXPECT_EQ(rule.live, bytes);
  EXPECT_EQ(entry(profile, "plain_mul").storages, 0);
  EXPECT_EQ(entry(profile, "plain_mul", true).storages, 0);
}

TEST(MemoryProfile, StoragesMayOutliveTheirProfile) {
  auto profile = std::make_unique<MemoryProfile>();
  std::optional<Tensor> x = scale(large(), 2);
  profile.reset();
  profile = std::make_unique<MemoryProfile>();
  x.reset();
  EXPECT_EQ(profile->live(), 0);
  x = scale(large(), 2);
  EXPECT_EQ(entry(*profile, "plain_scale").live, bytes);
  EXPECT_EQ(profile->peak(), 2 * bytes);
}

TEST(MemoryProfile, OneAtATime) {
  const MemoryProfile profile;
  EXPECT_EQ(error_of([] { MemoryProfile second; }),
            "memory_profile: one profile may live at a time; got a second one; end the first one before");
}

TEST(MemoryProfile, PrintsATable) {
  MemoryProfile profile;
  const Tensor x = scale(ones({200'000}, DType::f64), 2);
  EXPECT_EQ(to_string(profile),
            "op                            storages       made    at peak       peak        now\n"
            "(outside ops)                        1     1.6 MB     1.6 MB     1.6 MB        0 B\n"
            "plain_scale                          1     1.6 MB     1.6 MB     1.6 MB     1.6 MB\n"
            "all                                  2     3.2 MB     3.2 MB     3.2 MB     1.6 MB\n");
}

// ---- what backward holds --------------------------------------------------------------------------------------------

TEST(BackwardMemory, EachSavedTensorIsFreedAfterItsLastUse) {
  // Forward saves ten values. Backward frees one a step and holds two cotangents and what the rule makes, so the peak
  // is at its first step, however long the chain.
  for (const int links : {10, 30}) {
    MemoryProfile profile;
    Tape tape;
    const Tensor x = tape.watch(large());
    Tensor y = x;
    for (int i = 0; i < links; ++i) y = test::plain::tanh(y);
    y = sum(y);
    EXPECT_EQ(profile.live() / bytes, links + 1);
    tape.backward(y);
    EXPECT_LE(profile.peak(), (links + 1 + 4) * bytes + 100);  // and scalars
    EXPECT_EQ(profile.live() / bytes, 1) << "x alone";
  }
}

TEST(BackwardMemory, CotangentsThatMeetAreAddedInPlace) {
  Tape tape;
  const Tensor x = tape.watch(large());
  Tensor total = scale(x, 1);
  for (int i = 2; i <= 20; ++i) total = add(total, scale(x, i));
  const Tensor loss = sum(total);
  MemoryProfile profile;
  const Gradients gradients = tape.backward(loss);
  EXPECT_EQ(gradients.of(x).to_doubles(), std::vector<double>(elements, 210));
  EXPECT_EQ(entry(profile, "accumulate").storages + entry(profile, "accumulate", true).storages, 0);
  EXPECT_LE(profile.peak(), 3 * bytes + 100);
}

TEST(BackwardMemory, ConstantCotangentsStayViews) {
  // The cotangent of every addend is the root's 1, stretched: one dense tensor is made in all, as it leaves.
  Tape tape;
  const Tensor a = tape.watch(large()), b = tape.watch(large());
  const Tensor loss = sum(add(add(a, b), add(b, a)));
  MemoryProfile profile;
  const Gradients gradients = tape.backward(loss);
  EXPECT_EQ(gradients.of(a).to_doubles(), std::vector<double>(elements, 2));
  EXPECT_LE(profile.peak(), 2 * bytes + 100) << to_string(profile);
}

}  // namespace
}  // namespace capstan
