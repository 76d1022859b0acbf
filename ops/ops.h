// The whole catalogue in one include. Not for: libraries' own files, which include the family that they use.
#pragma once

#include <capstan/ops/activation.h>
#include <capstan/ops/arg.h>
#include <capstan/ops/attention.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/ops/derivatives.h>
#include <capstan/ops/dropout.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/embedding.h>
#include <capstan/ops/gather.h>
#include <capstan/ops/layer_norm.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/losses.h>
#include <capstan/ops/mask.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/positions.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/reduction.h>
#include <capstan/ops/rms_norm.h>
#include <capstan/ops/rotary.h>
#include <capstan/ops/scan.h>
#include <capstan/ops/select.h>
#include <capstan/ops/softmax.h>
#include <capstan/ops/stack.h>
