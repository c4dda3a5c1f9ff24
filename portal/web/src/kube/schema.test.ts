import { expect, test } from "vitest";
import { completions } from "./help";
import { ITEM, type OpenApi, type Place, documentOf, fieldsOf, schemaAt, schemaOfKind, spotAt, typeOf, valuesOf } from "./schema";

const document: OpenApi = {
  components: {
    schemas: {
      "io.k8s.api.apps.v1.Deployment": {
        type: "object",
        properties: { metadata: { $ref: "#/components/schemas/Meta" }, spec: { description: "what is wanted", default: {}, allOf: [{ $ref: "#/components/schemas/Spec" }] } },
        "x-kubernetes-group-version-kind": [{ group: "apps", version: "v1", kind: "Deployment" }],
      },
      Meta: { type: "object", description: "of all objects", properties: { labels: { type: "object", additionalProperties: { type: "string" } } } },
      Spec: { type: "object", description: "of the type", required: ["selector"], properties: { replicas: { type: "integer", format: "int32", description: "how many" }, paused: { type: "boolean" }, selector: { type: "object" }, containers: { type: "array", items: { allOf: [{ $ref: "#/components/schemas/Container" }] } } } },
      Container: { type: "object", required: ["name"], properties: { name: { type: "string" }, imagePullPolicy: { type: "string", enum: ["Always", "Never"] }, port: { "x-kubernetes-int-or-string": true }, args: { type: "array", items: { type: "string" } } } },
      Loop: { allOf: [{ $ref: "#/components/schemas/Loop" }] },
    },
  },
};
const root = schemaOfKind(document, "apps", "v1", "Deployment");

test("fields are found through references, described where they are", () => {
  expect(documentOf("", "v1") + " " + documentOf("apps", "v1")).toBe("api/v1 apis/apps/v1");
  expect(schemaOfKind(document, "apps", "v1beta1", "Deployment")).toBeUndefined();
  const spec = schemaAt(document, root, ["spec"]);
  expect(spec?.description).toBe("what is wanted");
  expect(fieldsOf(document, spec).map((each) => `${each.name} ${each.type}${each.required ? " *" : ""}`)).toEqual(["selector object *", "containers []object", "paused boolean", "replicas integer"]);
  const container = schemaAt(document, root, ["spec", "containers", ITEM]);
  expect(fieldsOf(document, container).map((each) => each.type)).toEqual(["string", "[]string", "string", "int-or-string"]);
  expect(valuesOf(schemaAt(document, root, ["spec", "containers", ITEM, "imagePullPolicy"]))).toEqual(["Always", "Never"]);
  expect(valuesOf(schemaAt(document, root, ["spec", "paused"]))).toEqual(["true", "false"]);
  expect(typeOf(document, schemaAt(document, root, ["metadata", "labels"]))).toBe("map[string]string");
  expect(schemaAt(document, root, ["metadata", "labels", "anything"])?.type).toBe("string");
  expect(schemaAt(document, root, ["nothing", "here"])).toBeUndefined();
  expect(schemaAt(document, { $ref: "#/components/schemas/Loop" }, [])).toBeUndefined();
});

const TEXT = `apiVersion: apps/v1
metadata:
  labels:
    app: web
spec:
  replicas: 2
  containers:
    - name: a
      args:
        - one

      ports:
      - port: 1
        name: http
    - name: b
  text: |
    looks: like
      a: field
  paused: true
`;
const lines = TEXT.split("\n");
const spot = (has: string, column?: number) => {
  const line = lines.findIndex((each) => each.includes(has));
  return spotAt(lines, line, column ?? (lines[line] ?? "").length);
};
const written = (place: Place | undefined): string => place?.map((each) => (each === ITEM ? "[]" : each)).join(".") ?? "none";

test("where one is in a text", () => {
  expect(written(spot("app: web")?.place)).toBe("metadata.labels");
  expect(written(spot("replicas")?.place)).toBe("spec");
  expect(written(spot("name: a")?.place)).toBe("spec.containers.[]");
  expect(written(spot("args:")?.place)).toBe("spec.containers.[]");
  expect(written(spot("- one")?.place)).toBe("spec.containers.[].args.[]");
  expect(written(spot("port: 1")?.place), "a dash in the column of its key").toBe("spec.containers.[].ports.[]");
  expect(written(spot("name: http")?.place)).toBe("spec.containers.[].ports.[]");
  expect(written(spot("name: b")?.place)).toBe("spec.containers.[]");
  expect(written(spot("paused")?.place)).toBe("spec");
  expect(spot("looks: like"), "a text is no object").toBeUndefined();
  expect([spot("replicas: 2")?.atValue, spot("replicas: 2", 5)?.atValue, spot("replicas: 2")?.key]).toEqual([true, false, "replicas"]);
});

test("an empty line is where one would write", () => {
  const empty = lines.indexOf("");
  const at = (column: number) => spotAt(lines, empty, column);
  expect([8, 6, 4, 2, 0].map((column) => written(at(column)?.place))).toEqual(["spec.containers.[].args", "spec.containers.[]", "spec.containers", "spec", ""]);
  expect([...(at(6)?.siblings ?? [])].sort(), "of the same item only").toEqual(["args", "name", "ports"]);
  expect([...(at(2)?.siblings ?? [])].sort()).toEqual(["containers", "paused", "replicas", "text"]);
  expect([...(spotAt(["metadata:", "  ", "spec:"], 1, 2)?.siblings ?? [])]).toEqual([]);
});

test("what is offered is what may stand there and does not yet", () => {
  if (!root) throw new Error("no schema");
  const offered = (text: string[], line: number, column: number) => completions({ document, root }, text, line, column);
  const labels = (text: string[], line: number, column: number): string[] => offered(text, line, column)?.options.map((each) => each.label) ?? [];
  const text = ["spec:", "  replicas: 1", "  ", "  containers:", "    - name: a", "      imagePullPolicy: ", "      "];
  expect(labels(text, 2, 2)).toEqual(["selector", "paused"]);
  expect(labels(text, 1, 5), "the name that one is at, too").toContain("replicas");
  expect(labels(text, 5, 23)).toEqual(["Always", "Never"]);
  expect(labels(text, 6, 6)).toEqual(["args", "port"]);
  expect(labels(["spec:", "  containers:", "    "], 2, 4), "a list begins with a dash").toEqual([]);
  const apply = (name: string): unknown => offered(["spec:", "  "], 1, 2)?.options.find((each) => each.label === name)?.apply;
  expect([apply("replicas"), apply("selector"), apply("containers")]).toEqual(["replicas: ", "selector:\n    ", "containers:\n    - "]);
  expect(offered(["spec:", "  repl"], 1, 6)?.from, "what is written already is replaced").toBe(2);
});
