import { expect, test } from "vitest";
import { createKeyPem, publicKeyOf } from "../../../shared/identity/keys.ts";
import { parsePin, pinBytes, pinFromBytes, pinOfPublicKey } from "../../../shared/identity/pin.ts";
import { proves } from "../../support/proves.ts";

const hex = "0123456789abcdef".repeat(4);
const colons = hex.replaceAll(/..(?!$)/g, "$&:");

proves(
  "pairing.pin-spellings",
  "every spelling of a pin reads as one pin, and what is none is refused",
  () => {
    const spellings = [hex, hex.toUpperCase(), colons, colons.toUpperCase(), ` ${hex}\n`, `\t${colons} `];
    for (const spelling of spellings) {
      expect(parsePin(spelling)).toBe(`sha256:${hex}`);
      expect(parsePin(`sha256:${spelling.trim()}`)).toBe(`sha256:${hex}`);
      expect(parsePin(` SHA256:${spelling.trim()} `)).toBe(`sha256:${hex}`);
    }
    const wrong = ["", " ", "sha256:", hex.slice(1), `${hex}0`, `g${hex.slice(1)}`, `sha256:${hex.slice(1)}`];
    for (const text of [
      ...wrong,
      `sha1:${hex}`,
      `${hex}:`,
      `0:${hex.slice(1)}`,
      `${hex.slice(0, 32)} ${hex.slice(32)}`,
    ]) {
      expect(() => parsePin(text)).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT", details: { field: "pin" } }),
      );
    }
    expect(() => parsePin("x", "authority")).toThrow(
      expect.objectContaining({ details: { field: "authority" } }),
    );
  },
);

test("a pin is the digest of a public key, and its bytes give it back", async () => {
  const spki = publicKeyOf(await createKeyPem());
  const pin = pinOfPublicKey(spki);
  expect(parsePin(pin)).toBe(pin);
  expect(pinFromBytes(pinBytes(pin))).toBe(pin);
  expect(pinOfPublicKey(publicKeyOf(await createKeyPem()))).not.toBe(pin);
});
