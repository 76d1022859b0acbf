// All that a program needs to compose and train models: modules, optimisers, generation, and the ops below them. Not for:
// files of weights (<capstan/nn/io/checkpoint.h>).
#pragma once

#include <capstan/autograd/checkpoint.h>
#include <capstan/autograd/create.h>
#include <capstan/autograd/transform.h>
#include <capstan/nn/attention.h>
#include <capstan/nn/cache.h>
#include <capstan/nn/embedding.h>
#include <capstan/nn/generate.h>
#include <capstan/nn/gradcheck.h>
#include <capstan/nn/layer_norm.h>
#include <capstan/nn/linear.h>
#include <capstan/nn/mlp.h>
#include <capstan/nn/module.h>
#include <capstan/nn/optim.h>
#include <capstan/nn/rms_norm.h>
#include <capstan/nn/schedule.h>
#include <capstan/nn/state_dict.h>
#include <capstan/nn/summary.h>
#include <capstan/nn/transformer.h>
#include <capstan/ops/ops.h>
