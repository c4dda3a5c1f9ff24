// What can be said about a name or a parameter before the server is asked; the server has the last word.
import type { Parameter } from "../api/types";

/** Names of environments are DNS labels of at most 63 characters. */
export function nameProblem(name: string): string | undefined {
  if (name === "") return "Give it a name";
  if (name.length > 63) return "At most 63 characters";
  if (!/^[a-z]/.test(name)) return "Begin with a lower-case letter";
  if (!/^[a-z0-9-]*$/.test(name)) return "Lower-case letters, digits and - only";
  if (name.endsWith("-")) return "End with a letter or a digit";
  return undefined;
}

/** What is wrong with the text of a parameter; nothing when it will do. */
export function parameterProblem(parameter: Parameter, text: string): string | undefined {
  if (text === "") return parameter.required && parameter.default === undefined ? "This is needed" : undefined;
  switch (parameter.type) {
    case "number": {
      const value = Number(text);
      if (text.trim() === "" || !Number.isFinite(value)) return "A number is wanted";
      if (parameter.integer === true && !Number.isInteger(value)) return "A whole number is wanted";
      if (parameter.minimum !== undefined && value < parameter.minimum) return `At least ${parameter.minimum}`;
      if (parameter.maximum !== undefined && value > parameter.maximum) return `At most ${parameter.maximum}`;
      return undefined;
    }
    case "choice":
      return parameter.choices?.includes(text) === false ? `One of ${parameter.choices.join(", ")}` : undefined;
    case "boolean":
      return text === "true" || text === "false" ? undefined : "true or false";
    default:
      return patternProblem(parameter.pattern, text);
  }
}

/** The server's regular expressions are not the browser's: one that cannot be read here is left to the server. */
function patternProblem(pattern: string | undefined, text: string): string | undefined {
  if (pattern === undefined) return undefined;
  try {
    return new RegExp(`^(?:${pattern})$`, "u").test(text) ? undefined : `Must match ${pattern}`;
  } catch {
    return undefined;
  }
}

/** The JSON value that a text stands for. */
export function parameterValue(parameter: Parameter, text: string): unknown {
  if (parameter.type === "number") return Number(text);
  if (parameter.type === "boolean") return text === "true";
  return text;
}

/** A value as the field of its parameter shows it. */
export function parameterText(parameter: Parameter, value: unknown): string {
  if (value === undefined || value === null) return parameter.type === "boolean" ? "false" : "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

export const defaultText = (parameter: Parameter): string => parameterText(parameter, parameter.default);
