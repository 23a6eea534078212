/** What a reader of the page can mend: a value, and the field that it belongs to, if there is one. */
export class InputError extends Error {
  constructor(message: string, readonly field: string | null = null) { super(message); }
}

/** A program that has no closed form here: what it says stands where a number would. */
export class ProgramError extends Error {}
