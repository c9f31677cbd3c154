import { expect, test } from "vitest";
import { cutLines } from "../../../node-agent/memory/cut-lines.ts";

const all = { from: 1, lines: 0, maxChars: 1000 };

test("lines come unchanged with their numbers", () => {
  expect(cutLines("a\r\nb\nc", all)).toEqual({
    text: "a\r\nb\nc",
    firstLine: 1,
    lastLine: 3,
    totalLines: 3,
    truncated: false,
  });
  expect(cutLines("a\nb\nc\n", { ...all, from: 2, lines: 1 })).toEqual({
    text: "b\n",
    firstLine: 2,
    lastLine: 2,
    totalLines: 3,
    truncated: false,
  });
  expect(cutLines("a\nb\nc\n", { ...all, from: 3, lines: 9 })).toEqual({
    text: "c\n",
    firstLine: 3,
    lastLine: 3,
    totalLines: 3,
    truncated: false,
  });
});

test("a start past the end gives nothing and the count of lines", () => {
  expect(cutLines("a\nb\n", { ...all, from: 3 })).toEqual({
    text: "",
    firstLine: 0,
    lastLine: 0,
    totalLines: 2,
    truncated: false,
  });
  expect(cutLines("", all)).toEqual({ text: "", firstLine: 0, lastLine: 0, totalLines: 0, truncated: false });
});

test("a text over the limit is cut between characters, and says so", () => {
  expect(cutLines("ab\ncd\n", { ...all, maxChars: 4 })).toEqual({
    text: "ab\nc",
    firstLine: 1,
    lastLine: 2,
    totalLines: 2,
    truncated: true,
  });
  expect(cutLines("a😀b", { ...all, maxChars: 2 })).toMatchObject({ text: "a", truncated: true });
  expect(cutLines("a😀b", { ...all, maxChars: 3 })).toMatchObject({ text: "a😀", truncated: true });
});
