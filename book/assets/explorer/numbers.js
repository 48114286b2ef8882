// Numbers as they are typed, shown, and printed into a file.

import { LIMITS } from "explorer/limits";

const minus = (text) => text.replace("-", "−");

// What may still become a number while it is being typed.
export const unfinished = (text) => /^\s*[-+−]?\.?\s*$|[\d.]e[-+−]?\s*$/i.test(text);

// The number that a text means. NFKC: digits from a Japanese keyboard are digits.
export function parse(text) {
  const plain = text.normalize("NFKC").trim().replace("−", "-");
  if (plain.length > LIMITS.digits || !/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d{1,3})?$/i.test(plain)) {
    throw new Error(`${shortened(plain) || "nothing"} is not a number; one such as 0.5, -2 or 1e-3 would fit`);
  }
  return inRange(Number(plain));
}

// The same number, if it is one that the explorer takes. Minus zero is zero.
export function inRange(number) {
  if (typeof number !== "number" || !(Math.abs(number) <= LIMITS.number)) {
    throw new Error(`${shortened(String(number))} does not fit; a number from −${LIMITS.number} to ${LIMITS.number} would`);
  }
  return number === 0 ? 0 : number;
}

export const shortened = (text) => (text.length > 30 ? `${text.slice(0, 27)}…` : text);

// All digits.
export const full = (number) => minus(String(number).replace("Infinity", "∞"));

// Four decimals, for a cell.
export function show(number) {
  if (!Number.isFinite(number)) return full(number);
  const text = Math.abs(number) < 1e6 ? number.toFixed(4) : number.toExponential(4);
  return minus(Number(text) === 0 ? "0.0000" : text);
}

// For a sum that is spelled out: 1.10 where that is the number, 0.1688 where it is rounded.
export function brief(number) {
  const exact = Math.abs(Number(number.toFixed(4)) - number) <= 1e-12 * Math.max(1, Math.abs(number));
  return exact ? show(number).replace(/(\.\d\d\d?)0+$/, "$1").replace(/(\.\d\d)0$/, "$1") : show(number);
}

// As a person types it, with at least so many decimals: a column of given numbers lines up.
export function typed(number, decimals) {
  const text = String(number);
  return text.includes("e") ? text : number.toFixed(Math.max(decimals, decimalsOf(number)));
}

export const decimalsOf = (number) => String(number).split(".")[1]?.length ?? 0;

// For a file that is checked digit by digit. On a tie one more decimal, since another machine may fall on its other side.
export function printed(number) {
  if (number === -Infinity) return "-inf";
  let decimals = 4;
  while (decimals < 15 && Math.abs(((Math.abs(number) * 10 ** decimals) % 1) - 0.5) < 1e-6) decimals += 1;
  const text = number.toFixed(decimals);
  return Number(text) === 0 ? text.replace("-", "") : text;
}
