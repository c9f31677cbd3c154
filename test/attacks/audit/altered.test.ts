import { readFile, readdir, rm, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { faultFromError } from "../../../shared/fault/fault-from-error.ts";
import { openTestAudit, type TestAudit } from "../../support/open-audit.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";

const signal = AbortSignal.timeout(60_000);

async function opened(): Promise<TestAudit & { readonly folder: TempFolder }> {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await makeTempFolder());
  const audit = stack.use(await openTestAudit(folder));
  await audit.fill(40);
  // All of them are in files then.
  await audit.audit.verify({ signal });
  const owned = stack.move();
  return { ...audit, folder, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function linesOf(file: string): Promise<string[]> {
  return (await readFile(file, "utf8")).split("\n").slice(0, -1);
}

async function change(file: string, edit: (lines: string[]) => string[]): Promise<number> {
  const lines = await linesOf(file);
  const { sequence } = JSON.parse(lines[0] ?? "") as { readonly sequence: number };
  await writeFile(
    file,
    edit(lines)
      .map((line) => `${line}\n`)
      .join(""),
  );
  return sequence;
}

async function verdict({ audit }: TestAudit): Promise<unknown> {
  try {
    return await audit.verify({ signal });
  } catch (error) {
    const { code, details } = faultFromError(error);
    return { code, details };
  }
}

test("a byte changed, a record removed, two swapped: the first that does not fit is named", async () => {
  await using record = await opened();
  const file = record.folder.join("gateway", "audit", "000002.jsonl");
  const whole = await readFile(file);
  const first = await change(file, (lines) => lines.with(1, (lines[1] ?? "").replace("after-", "other-")));
  const broken = (at: number): object => ({
    code: "INTEGRITY_FAILURE",
    details: { record: at, path: "audit/000002.jsonl" },
  });
  expect(await verdict(record)).toMatchObject(broken(first + 1));
  await writeFile(file, whole);
  await change(file, (lines) => lines.toSpliced(1, 1));
  expect(await verdict(record)).toMatchObject(broken(first + 1));
  await writeFile(file, whole);
  await change(file, ([one = "", two = "", ...rest]) => [two, one, ...rest]);
  expect(await verdict(record)).toMatchObject(broken(first));
  await writeFile(file, whole);
  expect(await verdict(record)).toMatchObject({ records: 40 });
});

test("the end cut off and a file deleted are seen, at every place", async () => {
  await using record = await opened();
  const names = (await readdir(record.folder.join("gateway", "audit"))).toSorted();
  const last = record.folder.join("gateway", "audit", names.at(-1) ?? "");
  const whole = await readFile(last);
  await change(last, (lines) => lines.slice(0, -1));
  expect(await verdict(record)).toMatchObject({ code: "INTEGRITY_FAILURE", details: { record: 40 } });
  await writeFile(last, whole);
  for (const name of names) {
    const file = record.folder.join("gateway", "audit", name);
    const content = await readFile(file);
    await rm(file);
    expect(await verdict(record)).toMatchObject({
      code: "INTEGRITY_FAILURE",
      details: { path: `audit/${name}` },
    });
    await writeFile(file, content);
  }
  expect(await verdict(record)).toMatchObject({ records: 40 });
});

test("a chain that was computed anew does not end in the head that the store keeps", async () => {
  await using record = await opened();
  await using forged = await opened();
  for (const name of await readdir(forged.folder.join("gateway", "audit"))) {
    const content = await readFile(forged.folder.join("gateway", "audit", name));
    await writeFile(record.folder.join("gateway", "audit", name), content);
  }
  expect(await verdict(record)).toMatchObject({ code: "INTEGRITY_FAILURE" });
});
