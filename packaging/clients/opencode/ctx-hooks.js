// ctx hooks for opencode: written by `ctx setup opencode --hooks`, deleted by `ctx setup opencode --remove`.
// Each hook runs `ctx hook EVENT` with JSON on its standard input; whatever fails, opencode goes on without it.
import { spawn } from "node:child_process"

const COMMAND = ["ctx"]
const PATIENCE_MS = 10000
const TOOLS = new Set(["grep", "read", "edit", "multiedit", "write", "patch", "apply_patch", "bash"])

function ask(event, input) {
  return new Promise((resolve) => {
    const [program, ...words] = COMMAND
    const child = spawn(program, [...words, "hook", event, "--client", "opencode"], { stdio: ["pipe", "pipe", "ignore"] })
    const timer = setTimeout(() => child.kill(), PATIENCE_MS)
    const finish = (text) => {
      clearTimeout(timer)
      resolve(text)
    }
    let written = ""
    child.stdout.on("data", (data) => (written += data))
    child.stdin.on("error", () => {})
    child.on("error", () => finish(""))
    child.on("close", () => {
      try {
        finish(JSON.parse(written).hookSpecificOutput.additionalContext)
      } catch {
        finish("")
      }
    })
    child.stdin.end(JSON.stringify(input))
  })
}

export const ContextEngineHooks = async ({ directory }) => {
  const started = new Set()
  let count = 0
  return {
    "chat.message": async (input, output) => {
      const base = { session_id: input.sessionID, cwd: directory }
      const prompt = output.parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
      const asked = [ask("chat.message", { ...base, prompt: prompt.join("\n") })]
      if (!started.has(input.sessionID)) {
        started.add(input.sessionID)
        asked.unshift(ask("session.created", base))
      }
      for (const text of (await Promise.all(asked)).filter(Boolean)) {
        const id = `prt_${Date.now().toString(16)}${(count++).toString(16).padStart(4, "0")}ctx`
        const own = { id, sessionID: input.sessionID, messageID: output.message.id }
        output.parts.push({ ...own, type: "text", text, synthetic: true })
      }
    },
    "tool.execute.after": async (input, output) => {
      if (!TOOLS.has(input.tool) || typeof output.output !== "string") return
      const call = { tool_name: input.tool, tool_input: input.args ?? {}, tool_response: output.output.slice(0, 65536) }
      const text = await ask("tool.execute.after", { session_id: input.sessionID, cwd: directory, ...call })
      if (text) output.output += `\n\n${text}`
    },
  }
}
