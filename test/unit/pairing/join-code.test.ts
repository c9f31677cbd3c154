import fc from "fast-check";
import { expect, test } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import {
  createJoinSecret,
  formatJoinCode,
  maxJoinAddresses,
  parseJoinCode,
  type JoinCode,
} from "../../../shared/identity/join-code.ts";
import { pinFromBytes } from "../../../shared/identity/pin.ts";
import { proves } from "../../support/proves.ts";

const addresses = ["127.0.0.1:7443", "gateway.example:7443", "[2001:db8::1]:443"];
const pin = pinFromBytes(Buffer.alloc(32, 0xc4));

function codeWith(more: Partial<JoinCode> = {}): JoinCode {
  return { purpose: "node", addresses, pin, secret: createJoinSecret(), ...more };
}

function refusalOf(text: string): unknown {
  try {
    parseJoinCode(text);
    return "accepted";
  } catch (error) {
    return error instanceof Fault ? `${error.code} ${JSON.stringify(error.details["field"])}` : error;
  }
}

proves(
  "pairing.code-carries",
  "a code decodes to its addresses, pin and 128-bit secret, and no two codes share a secret",
  () => {
    const secrets = new Set<string>();
    for (let made = 0; made < 10_000; made += 1) {
      const code = codeWith();
      const read = parseJoinCode(formatJoinCode(code));
      expect(read.secret).toHaveLength(128 / 8);
      if (made % 100 === 0) expect(read).toEqual({ ...code, secret: new Uint8Array(code.secret) });
      secrets.add(Buffer.from(read.secret).toString("hex"));
    }
    expect(secrets.size).toBe(10_000);
  },
);

test("any addresses, pin and secret come back as they went in", () => {
  const host = fc.oneof(
    fc.ipV4(),
    fc.ipV6().map((ip) => `[${ip}]`),
    fc.stringMatching(/^[a-z][a-z0-9-]{0,40}(\.[a-z][a-z0-9]{0,20}){0,3}$/),
  );
  const address = fc
    .tuple(host, fc.integer({ min: 1, max: 65_535 }))
    .map(([name, port]) => `${name}:${port}`);
  const bytes = (length: number): fc.Arbitrary<Uint8Array> =>
    fc.uint8Array({ minLength: length, maxLength: length });
  fc.assert(
    fc.property(
      fc.array(address, { minLength: 1, maxLength: maxJoinAddresses }),
      bytes(32),
      bytes(16),
      (list, key, secret) => {
        const code = codeWith({ addresses: list, pin: pinFromBytes(key), secret });
        expect(parseJoinCode(formatJoinCode(code))).toEqual(code);
      },
    ),
  );
});

test("a code with any one character changed, dropped or added is refused, naming the field", () => {
  const text = formatJoinCode(codeWith());
  const characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_ =\n";
  const accepted: string[] = [];
  for (let at = 0; at <= text.length; at += 1) {
    const [head, tail] = [text.slice(0, at), text.slice(at)];
    const damaged = characters.split("").flatMap((one) => [head + one + tail, head + one + tail.slice(1)]);
    for (const candidate of [...damaged, head + tail.slice(1)]) {
      if (candidate !== text && refusalOf(candidate) !== `INVALID_ARGUMENT "code"`) accepted.push(candidate);
    }
  }
  expect(accepted).toEqual([]);
});

test("two characters that changed places are noticed", () => {
  const text = formatJoinCode(codeWith());
  for (let at = 4; at < text.length - 1; at += 1) {
    const swapped = text.slice(0, at) + text.charAt(at + 1) + text.charAt(at) + text.slice(at + 2);
    if (swapped !== text) expect(refusalOf(swapped)).toBe(`INVALID_ARGUMENT "code"`);
  }
});

test("text that is no code is refused and not repeated in the message", () => {
  for (const text of ["", "flj_", "flj_AQ", "hello", "flj_" + "A".repeat(10_000)]) {
    expect(refusalOf(text)).toBe(`INVALID_ARGUMENT "code"`);
  }
  expect(() => parseJoinCode("flj_secretsecretsecret")).toThrow(/^(?!.*secretsecret)/);
});

test("a code for no address, or for too many, is not made", () => {
  const many = Array.from({ length: maxJoinAddresses + 1 }, (_, index) => `10.0.0.${index}:7443`);
  for (const list of [[], many, ["no-port"], ["host:0"], ["host:70000"], ["a b:1"]]) {
    expect(() => formatJoinCode(codeWith({ addresses: list }))).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT" }),
    );
  }
});
