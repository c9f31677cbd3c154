/** The header in which a caller says how long the work itself may take, in milliseconds, beside waiting for a person. */
export const workTimeHeader = "fairlead-work-ms";

/** The header of a caller who does not wait for a person: `1`. */
export const noWaitHeader = "fairlead-no-wait";
