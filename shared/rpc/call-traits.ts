import { getOption, type DescMethod } from "@bufbuild/protobuf";
import {
  call_class,
  follows,
  goes_on,
  least_role,
  type CallClass,
  type Role,
} from "../gen/fairlead/v1/options_pb.ts";

/** What a method declares of its calls in its proto file. */
export interface CallTraits {
  readonly callClass: CallClass;
  /** Whether its calls go on while the node takes no new ones. */
  readonly goesOn: boolean;
  /** Whether its calls follow something and never end by themselves. */
  readonly follows: boolean;
  /** The least role of whoever calls it on a gateway from another machine; `UNSPECIFIED`: nobody from there may. */
  readonly leastRole: Role;
}

/** Kept, since every call asks and reading an option costs as much as a small message. */
const known = new WeakMap<DescMethod, CallTraits>();

/** What `method` declares of its calls. */
export function callTraitsOf(method: DescMethod): CallTraits {
  const found = known.get(method);
  if (found) return found;
  const traits = {
    callClass: getOption(method, call_class),
    goesOn: getOption(method, goes_on),
    follows: getOption(method, follows),
    leastRole: getOption(method, least_role),
  };
  known.set(method, traits);
  return traits;
}
