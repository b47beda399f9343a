// Written by scripts/packages.py from packaging/source; do not edit. For opencode: copy it to ~/.config/opencode/plugins/.
const PACKAGE = {
  "mcp": {
    "ctx": {
      "type": "local",
      "command": [
        "ctx",
        "serve"
      ]
    }
  },
  "agent": {
    "ctx-explorer": {
      "mode": "subagent",
      "description": "Explores a code base and reports the places that answer a question, without changing anything. Use it for broad questions (how does X work, where is Y handled, what does a change of Z affect) to keep the search out of the main conversation.",
      "prompt": "You answer questions about the code of this project. You change nothing.\n\n1. Ask `search_code` in the words the code would use, or `get_context` for a whole task. One good question\n   beats five searches; ask a second one in other words before you search for text.\n2. Use `symbols` for definitions, `search_text` for an exact text, and `read` for the lines you need of\n   several files in one call. Do not read whole files.\n3. Follow callers and callees until you can say how the parts fit together, then stop.\n\nReport in at most 300 words: the answer in one or two sentences, then each place that matters as `path:first-last` with the\nsymbol and one line on why, then what you could not find. Quote only the lines that the answer depends on.\n",
      "tools": {
        "write": false,
        "edit": false,
        "patch": false,
        "bash": false,
        "ctx_edit_file": false,
        "ctx_write_file": false,
        "ctx_call_tool": false
      }
    }
  },
  "command": {
    "ctx-context": {
      "description": "Collect what has to be read for a task",
      "template": "Call `get_context` with this task: $ARGUMENTS\n\nThen list the files and symbols that the task will change, the tests that cover them, and the rules of this project that\napply. Change nothing yet.\n"
    },
    "ctx-find": {
      "description": "Find the code that answers a question",
      "template": "Find the code that answers this, with the ctx tools: $ARGUMENTS\n\nAsk `search_code` first, in the words the code would use. Read only the lines that it names. Answer with the places\n(`path:first-last`) and one sentence on each.\n"
    },
    "ctx-impact": {
      "description": "Show what a change of a symbol affects",
      "template": "Find out what a change of this symbol affects: $ARGUMENTS\n\nAsk `symbols` for its `impact`, and `search_code` for the tests that cover it. Group the places by what\nwould have to change with it, and name those that only need a look.\n"
    }
  }
}

export const ContextEngine = async () => ({
  config: async (config) => {
    config.mcp = { ...PACKAGE.mcp, ...config.mcp }
    config.agent = { ...PACKAGE.agent, ...config.agent }
    config.command = { ...PACKAGE.command, ...config.command }
  },
})
