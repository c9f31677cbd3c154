import type * as X509 from "@peculiar/x509";

/** The certificate library, as a module. */
export type X509Library = typeof X509;

let loading: Promise<X509Library> | undefined;

/**
 * Loads the library that makes certificates and requests, once and only when something has to be made: it costs more
 * than a tenth of a second, and a program that starts with its certificates in order never needs it. Reading and
 * checking certificates is done with `node:crypto`.
 */
export function loadX509(): Promise<X509Library> {
  loading ??= load();
  return loading;
}

async function load(): Promise<X509Library> {
  // Its container refuses to load without decorator metadata, which it then asks only for classes without parameters:
  // an answer of "nothing known" is all it needs.
  for (const name of ["getMetadata", "getOwnMetadata", "defineMetadata"]) {
    if (name in Reflect) continue;
    Object.defineProperty(Reflect, name, { value: () => undefined, configurable: true, writable: true });
  }
  const library = await import("@peculiar/x509");
  library.cryptoProvider.set(globalThis.crypto);
  return library;
}
