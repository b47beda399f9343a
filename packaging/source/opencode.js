// Written by scripts/packages.py from packaging/source; do not edit. For opencode: copy it to ~/.config/opencode/plugins/.
const PACKAGE = {}

export const ContextEngine = async () => ({
  config: async (config) => {
    config.mcp = { ...PACKAGE.mcp, ...config.mcp }
    config.agent = { ...PACKAGE.agent, ...config.agent }
    config.command = { ...PACKAGE.command, ...config.command }
  },
})
