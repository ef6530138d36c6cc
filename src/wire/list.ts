export type OneOrMore<Item> = readonly [Item, ...Item[]]

export function oneOrMore<Item>([first, ...others]: readonly Item[]): OneOrMore<Item> {
  if (first === undefined) throw new Error("a list is empty")
  return [first, ...others]
}
