// How much fits on a page.

export const LIMITS = {
  size: 8, // tokens, and numbers a token, query, key, value or output
  heads: 4,
  number: 1000, // of either sign: no sum outgrows a float
  digits: 24, // of a number that is typed
  token: 24, // characters
  link: 60000, // characters
};
