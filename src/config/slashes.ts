/** Removes trailing slashes. A loop, because a regular expression can take quadratic time here. */
export function withoutSlashes(url: string): string {
  let end = url.length
  while (url[end - 1] === "/") end--
  return url.slice(0, end)
}
