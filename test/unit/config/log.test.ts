import { expect, test } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { createLog } from "../../../shared/log/pino-log.ts";
import { redact, redactText } from "../../../shared/log/redact.ts";

function logLines(pretty: boolean, say: (log: ReturnType<typeof createLog>) => void): readonly string[] {
  const lines: string[] = [];
  say(createLog({ level: "info", pretty, write: (line) => void lines.push(line) }));
  return lines;
}

test("a line of the log is one JSON object with level, time, message and fields", () => {
  const [line = ""] = logLines(false, (log) =>
    log.child({ room: "link" }).info("linked", { generation: 3n }),
  );
  expect(JSON.parse(line)).toEqual({
    level: "info",
    time: expect.stringMatching(/^\d{4}-.*Z$/),
    room: "link",
    generation: "3",
    message: "linked",
  });
  expect(logLines(false, (log) => log.debug("quiet"))).toEqual([]);
});

test("a line for people says the same, with nothing that steers a terminal", () => {
  const [line = ""] = logLines(true, (log) => log.warn("said \u001b[2J", { host: "a\nb" }));
  expect(line).toMatch(/^\d\d:\d\d:\d\d\.\d{3} warn {2}said \\x1b\[2J host=a\\nb\n$/);
});

test("secrets are struck out, by name and by shape, wherever they stand", () => {
  const code = `flj_${"Ab3-_".repeat(12)}`;
  expect(redactText(`join ${code} now`)).toBe("join [redacted] now");
  expect(redactText("Authorization: Bearer abcdefghijkl")).not.toContain("abcdefghijkl");
  expect(redactText("-----BEGIN PRIVATE KEY-----\nMIG\n-----END PRIVATE KEY-----")).toBe("[redacted]");
  const clean = redact({
    token: "t0p",
    nested: [{ apiKey: "k", password: "p", keyPem: "x", code: "NOT_FOUND" }],
    secretBytes: new Uint8Array(16),
    error: new Fault("UNAUTHENTICATED", `bad ${code}`, { details: { secret: "s" }, cause: new Error(code) }),
  });
  const text = JSON.stringify(clean);
  for (const secret of ["t0p", '"k"', '"p"', '"x"', '"s"', code]) expect(text).not.toContain(secret);
  expect(clean).toMatchObject({ nested: [{ code: "NOT_FOUND" }], error: { code: "UNAUTHENTICATED" } });
});

test("a deep or broad value is cut", () => {
  const loop: { self?: unknown } = {};
  loop.self = loop;
  expect(JSON.stringify(redact(loop)).length).toBeLessThan(200);
  const many = redact(Array.from({ length: 1_000 }, () => 1));
  expect(Array.isArray(many) && many.length).toBe(100);
});
