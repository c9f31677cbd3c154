import { test } from "vitest";
import type { TestFunction, TestOptions } from "vitest";
import type { RequirementId } from "../requirements.ts";

type Ids = RequirementId | readonly RequirementId[];
type Body = readonly [TestFunction] | readonly [TestOptions, TestFunction];

/**
 * Registers a test that proves one promise or several: the ids, a sentence about behaviour, options of vitest if
 * there are any, and the body. The ids stand in the call as literals, so that the gate can find them.
 */
export interface Proves {
  (ids: Ids, sentence: string, ...body: Body): void;
  /** Not run, and no proof. */
  skip(ids: Ids, sentence: string, ...body: Body): void;
  /** A known failure: the body must fail, and turns red on the day it passes. */
  fails(ids: Ids, sentence: string, ...body: Body): void;
}

function named(ids: Ids, sentence: string): string {
  return `${sentence} [${[ids].flat().join(", ")}]`;
}

function split(body: Body): [TestOptions, TestFunction] {
  return body.length === 1 ? [{}, body[0]] : [body[0], body[1]];
}

/** Registers a test that proves the promises it names; see {@link Proves}. */
export const proves: Proves = Object.assign(
  (ids: Ids, sentence: string, ...body: Body): void => {
    test(named(ids, sentence), ...split(body));
  },
  {
    skip(ids: Ids, sentence: string, ...body: Body): void {
      const [options, run] = split(body);
      test(named(ids, sentence), { ...options, skip: true }, run);
    },
    fails(ids: Ids, sentence: string, ...body: Body): void {
      const [options, run] = split(body);
      test(named(ids, sentence), { ...options, fails: true }, run);
    },
  },
);
