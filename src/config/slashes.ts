/** A base URL without the slashes at its end. Counted, because a pattern for them can be made to take quadratic time. */
export function withoutSlashes(url: string): string {
  let end = url.length
  while (url[end - 1] === "/") end--
  return url.slice(0, end)
}
