# frozen_string_literal: true

# Print the calls that happen while files of tests run: caller and callee, as path, line, name, path and line.
#
#   ruby evals/references/ruby/calls.rb ROOT OUTPUT FILE...
#
# The tests of the repository run, so this is for a folder that may be thrown away. A call into a library has "-" for a path.

root = File.realpath(ARGV[0]) + "/"
output = ARGV[1]
files = ARGV.drop(2)
ARGV.clear
calls = {}
relative = ->(path) { path && path.start_with?(root) ? path[root.size..] : "-" }

trace = TracePoint.new(:call, :c_call) do |point|
  above = caller_locations(2, 1)&.first if point.event == :call
  above = caller_locations(1, 1)&.first if point.event == :c_call
  next unless above

  from = relative.call(above.absolute_path || above.path)
  next if from == "-"

  into = point.event == :call ? relative.call(point.path) : "-"
  calls[[from, above.lineno, point.method_id.to_s, into, into == "-" ? 0 : point.lineno]] = true
end

at_exit do
  trace.disable
  File.write(output, calls.keys.map { |row| row.join("\t") }.sort.join("\n") + "\n")
end
$LOAD_PATH.unshift("#{root}lib", "#{root}test")
Dir.chdir(root)
require "minitest/autorun" if files.any?
trace.enable
files.each { |file| require File.expand_path(file, root) }
