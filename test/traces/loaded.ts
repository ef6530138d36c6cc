/** Preloaded into a gateway: at its end it says which files of the traces it ever loaded. */
process.on("exit", () => {
  const files = Object.keys(require.cache).filter((path) => path.includes("/src/traces/"))
  console.log(`loaded of the traces: ${files.length} of ${Object.keys(require.cache).length}`)
})
