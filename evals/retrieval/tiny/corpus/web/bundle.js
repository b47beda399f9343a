// Bundles and minifies the pages into web/public, with a hash in each file name for the browser cache.
const { createHash } = require("node:crypto");
const { readFileSync, writeFileSync } = require("node:fs");

function fingerprint(path) {
  return createHash("sha256").update(readFileSync(path)).digest("hex").slice(0, 8);
}

function minify(source) {
  return source.replace(/^\s*\/\/.*$/gm, "").replace(/\n{2,}/g, "\n");
}

module.exports = function bundle(path, out) {
  writeFileSync(`${out}/page.${fingerprint(path)}.js`, minify(readFileSync(path, "utf8")));
};
