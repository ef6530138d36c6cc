import fc from "fast-check"

/** A random step of a history: one of `acts` with random `fields`, drawn by `weight`. */
export function step<const Act extends string, Fields extends object>(
  weight: number,
  acts: readonly Act[],
  fields: { readonly [Name in keyof Fields]: fc.Arbitrary<Fields[Name]> },
) {
  const drawn = fc.tuple(fc.constantFrom(...acts), fc.record<Fields>(fields))
  return { weight, arbitrary: drawn.map(([act, rest]): { readonly act: Act } & Fields => ({ act, ...rest })) }
}
