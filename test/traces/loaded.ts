/** Preloaded into a gateway: at its end it says how many files of the traces it loaded, besides the interface. */
process.on("exit", () => {
  const files = Object.keys(require.cache).filter(
    (path) => path.includes("/src/traces/") && !path.endsWith("/trace.ts"),
  )
  console.log(`loaded of the traces: ${files.length} of ${Object.keys(require.cache).length}`)
})
