import { describe, expect, test } from "vitest";
import type { Parameter } from "../api/types";
import { fileName } from "./download";
import { bytes, duration, elapsed, shell } from "./format";
import { nameProblem, parameterProblem, parameterValue } from "./parameters";
import { match } from "./router";

test("ages are written as kubectl writes them", () => {
  expect([0, 119, 120, 7199, 7200, 172_799, 172_800, -5].map(duration)).toEqual(["0s", "119s", "2m", "119m", "2h", "47h", "2d", "0s"]);
});

test("elapsed time has the precision that matters", () => {
  const from = "2026-01-01T00:00:00Z";
  expect(elapsed(from, "2026-01-01T00:00:00.420Z")).toBe("0.4 s");
  expect(elapsed(from, "2026-01-01T00:00:42Z")).toBe("42 s");
  expect(elapsed(from, "2026-01-01T00:05:00Z")).toBe("5 min");
});

test("words of a command are quoted so that a shell reads them as they are", () => {
  expect(shell("a=b.c/d")).toBe("a=b.c/d");
  expect(shell("it's $HOME")).toBe(`'it'\\''s $HOME'`);
  expect(shell("")).toBe("''");
});

test("bytes are in binary units", () => {
  expect([0, 1023, 1024, 1536, 25_769_803_776].map(bytes)).toEqual(["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "24.0 GiB"]);
});

test("names are DNS labels", () => {
  for (const good of ["a", "my-env", "a1-b2", "x".repeat(63)]) expect(nameProblem(good)).toBeUndefined();
  for (const bad of ["", "A", "1a", "a-", "a_b", "a.b", "x".repeat(64), "ä"]) expect(nameProblem(bad), bad).toBeDefined();
});

describe("parameters", () => {
  const parameter = (more: Partial<Parameter>): Parameter => ({ name: "p", type: "string", help: "", required: false, ...more });
  test("what is wrong is said before the server is asked", () => {
    expect(parameterProblem(parameter({ required: true }), "")).toBe("This is needed");
    expect(parameterProblem(parameter({ required: true, default: "x" }), "")).toBeUndefined();
    const number = parameter({ type: "number", minimum: 1, maximum: 3 });
    expect(["0", "1", "3", "4", "x", " "].map((text) => parameterProblem(number, text))).toEqual(["At least 1", undefined, undefined, "At most 3", "A number is wanted", "A number is wanted"]);
    expect(parameterProblem(parameter({ type: "choice", choices: ["a"] }), "b")).toBe("One of a");
  });
  test("a pattern is for the whole text, and one that only the server can read is left to it", () => {
    expect(parameterProblem(parameter({ pattern: "[a-z]+" }), "abc1")).toBe("Must match [a-z]+");
    expect(parameterProblem(parameter({ pattern: "a|b" }), "ab")).toBe("Must match a|b");
    expect(parameterProblem(parameter({ pattern: "(?P<x>a)" }), "zzz")).toBeUndefined();
  });
  test("values have the type of the parameter", () => {
    expect(parameterValue(parameter({ type: "number" }), "3")).toBe(3);
    expect(parameterValue(parameter({ type: "boolean" }), "true")).toBe(true);
    expect(parameterValue(parameter({}), "3")).toBe("3");
  });
});

test("addresses are matched part by part and decoded", () => {
  expect(match("/environments/:name/*rest", "/environments/a/resources/pods/x%2Fy")).toEqual({ name: "a", rest: "resources/pods/x%2Fy" });
  expect(match("/environments/:name/*rest", "/environments/a")).toEqual({ name: "a", rest: "" });
  expect(match("/jobs/:id", "/jobs/a%20b")).toEqual({ id: "a b" });
  expect(match("/jobs/:id", "/jobs/a/b")).toBeNull();
  expect(match("/jobs/:id", "/jobs/%ff")).toBeNull();
  expect(match("/", "/")).toEqual({});
});

test("a file that is saved is called what is harmless", () => {
  expect(["web.yaml", "shop.kubeconfig", "../../.bashrc", "..\\..\\x.lnk", "a/b", "%2e%2e%2fx", "", "..", "-rf", "a\u0000b.log", "<b>.yaml", "x\u202efdp.exe"].map(fileName)).toEqual(["web.yaml", "shop.kubeconfig", "____.bashrc", "____x.lnk", "a_b", "_2e_2e_2fx", "file", "_", "_rf", "a_b.log", "_b_.yaml", "x_fdp.exe"]);
  const long = fileName(`${"x".repeat(500)}.kubeconfig`);
  expect([long.length, long.endsWith(".kubeconfig")]).toEqual([200, true]);
});
