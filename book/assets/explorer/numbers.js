// Numbers as they are typed, shown, and printed into a file.

import { LIMITS } from "explorer/limits";

const TYPED = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d{1,3})?$/i;
const minus = (text) => text.replace("-", "\u2212");

export const MASKED = "\u2212\u221e";

// What may still become a number while it is being typed.
export const unfinished = (text) => /^\s*[-+\u2212]?\.?\s*$|[\d.]e[-+\u2212]?\s*$/i.test(text);

// The number that a text means. NFKC: digits from a Japanese keyboard are digits.
export function parse(text) {
  const plain = text.normalize("NFKC").trim().replace("\u2212", "-");
  if (plain === "") throw new Error("nothing is there; a number such as 0.5 would fit");
  if (/^[-+]?\d+,\d+$/.test(plain)) throw new Error(`${plain} has a comma; ${plain.replace(",", ".")} would fit`);
  if (plain.length > LIMITS.digits || !TYPED.test(plain)) {
    throw new Error(`${shortened(plain)} is not a number; one such as 0.5, -2 or 1e-3 would fit`);
  }
  return inRange(Number(plain), plain);
}

// The same number, if it is one that the explorer takes. Minus zero is zero.
export function inRange(number, text = String(number)) {
  if (typeof number !== "number" || !Number.isFinite(number) || Math.abs(number) > LIMITS.number) {
    throw new Error(`${shortened(text)} is too large; a number from \u2212${LIMITS.number} to ${LIMITS.number} would fit`);
  }
  return number === 0 ? 0 : number;
}

export const shortened = (text) => (text.length > 30 ? `${text.slice(0, 27)}\u2026` : text);

// Four decimals, for a cell.
export function show(number) {
  if (number === -Infinity) return MASKED;
  if (Math.abs(number) >= 1e6) return minus(number.toExponential(4));
  const text = number.toFixed(4);
  return minus(Number(text) === 0 ? "0.0000" : text);
}

// For a sum that is spelled out: 1.10 where that is the number, 0.1688 where it is rounded.
export function brief(number) {
  const text = show(number);
  const exact = Math.abs(Number(number.toFixed(4)) - number) <= 1e-12 * Math.max(1, Math.abs(number));
  return exact ? text.replace(/(\.\d\d)(\d?)0+$/, "$1$2").replace(/(\.\d\d)0$/, "$1") : text;
}

// All digits.
export const full = (number) => (number === -Infinity ? MASKED : minus(String(number)));

// As a person types it, with at least so many decimals: a column of given numbers lines up.
export function typed(number, decimals = 0) {
  const text = String(number);
  return text.includes("e") || decimals > 20 ? text : number.toFixed(Math.max(decimals, decimalsOf(number)));
}

export const decimalsOf = (number) => (/^-?\d+\.(\d+)$/.exec(String(number))?.[1] ?? "").length;

// For a file that is checked digit by digit: four decimals, and more where the last one would hang on a tie,
// since another machine's sums may fall on its other side.
export function printed(number) {
  if (number === -Infinity) return "-inf";
  for (let decimals = 4; decimals < 15; decimals += 1) {
    const text = number.toFixed(decimals);
    const units = Math.abs(number) * 10 ** decimals;
    if (Math.abs((units % 1) - 0.5) > 1e-6) return Number(text) === 0 ? text.replace("-", "") : text;
  }
  return String(number);
}
