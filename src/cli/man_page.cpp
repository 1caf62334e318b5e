#include <sstream>
#include <string>

#include <CLI/CLI.hpp>

#include "usage.hpp"

namespace forebay {
namespace {

// Escaped for roff: no line may begin with a control character, and a hyphen must be a minus.
std::string roff(const std::string& text) {
  std::string out;
  bool at_start = true;
  for (const char c : text) {
    if (at_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    at_start = c == '\n';
  }
  return out;
}

std::string heading(const FlagUsage& usage) {
  std::string text;
  for (const std::string& name : usage.names) text += (text.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
  if (!usage.value.empty() && usage.names.front().front() == '-') text += " \\fI" + roff(usage.value) + "\\fR";
  return text;
}

void describe(std::ostream& out, const CommandUsage& command) {
  out << ".SS forebay " << roff(command.name);
  for (const FlagUsage& operand : command.operands) out << " " << roff(operand.names.front());
  out << "\n" << roff(command.text) << ".\n";
  for (const auto* const usages : {&command.operands, &command.flags}) {
    for (const FlagUsage& usage : *usages) out << ".TP\n" << heading(usage) << "\n" << roff(usage.text) << "\n";
  }
  if (!command.notes.empty()) out << ".PP\n.nf\n" << roff(command.notes) << "\n.fi\n";
}

}  // namespace

std::string man_page(const CLI::App& app) {
  std::ostringstream out;
  out << ".TH FOREBAY 1 \"\" \"forebay " FOREBAY_VERSION "\" \"User Commands\"\n"
      << ".SH NAME\nforebay \\- " << roff(app.get_description()) << "\n"
      << ".SH SYNOPSIS\n.B forebay\n\\fICOMMAND\\fR [\\fIOPTION\\fR]...\n"
      << ".SH COMMANDS\n";
  for (const CommandUsage& command : usage_of(app)) describe(out, command);
  out << ".SH EXIT STATUS\n.nf\n" << roff(app.get_footer()) << "\n.fi\n";
  return out.str();
}

}  // namespace forebay
