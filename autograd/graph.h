// A tape as a picture: its calls and what flows between them, in Graphviz's language, or drawn by Graphviz where that is
// installed. Not for: what the calls computed (watch the tensors of interest), or how long they took.
#pragma once

#include <capstan/autograd/tape.h>

#include <optional>
#include <string>
#include <vector>

namespace capstan {

/// What a recorded tensor is called in the picture: any bytes. Control characters are shown by their pictures (U+2400 and up), what
/// is not UTF-8 or no character by U+FFFD, so that the drawing is well-formed XML.
struct GraphName {
  std::string name;
  Tensor x;
};

/// The tape as a directed graph, a line a node and an edge, in the order of recording. A node shows its name if it has one,
/// its op, and its outputs' shapes; a constant that a rule may read stands before the call that first used it. Nodes are of
/// class "leaf", "op" or "constant", and "watched" besides where a gradient is kept, so that style sheets can tell them apart; without one,
/// leaves have a blue ground, constants a dashed frame, and what is watched a strong frame. Operands enter from left to right.
/// Errors: a backward consumed the tape (pass {.keep = true} to it, or draw before); a name is given to a tensor that is not
/// recorded on this tape.
std::string graph_to_dot(const Tape& tape, const std::vector<GraphName>& names = {});

/// The same as an <svg> element, drawn by the program `dot`; nothing where that is not installed or fails.
std::optional<std::string> graph_to_svg(const Tape& tape, const std::vector<GraphName>& names = {});

}  // namespace capstan
