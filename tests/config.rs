//! `baton config`: what is set and by whom, what is wrong, changes that lose nothing, and settings that change under way.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::support::{Run, World, run, workspace_root};

fn user(world: &World, text: &str) {
    fs::create_dir_all(world.home()).unwrap();
    fs::write(world.home().join("config.jsonc"), text).unwrap();
}

fn read_user(world: &World) -> String {
    fs::read_to_string(world.home().join("config.jsonc")).unwrap()
}

fn json_of(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

/// The explanation of one setting.
fn explained(world: &World, key: &str) -> Value {
    json_of(&world.baton(&["config", "explain", key, "--json"]).expect(0))[0].take()
}

#[test]
fn every_section_is_known_to_explain_check_and_schema() {
    let mut found = BTreeSet::new();
    let mut dirs = vec![workspace_root().join("crates")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") && !path.to_string_lossy().contains("tests")
            {
                let text = fs::read_to_string(&path).unwrap();
                found.extend(
                    text.lines()
                        .filter_map(|line| line.strip_prefix("impl Section for "))
                        .map(|rest| rest.trim_end_matches([' ', '{']).to_owned()),
                );
            }
        }
    }
    let list = fs::read_to_string(workspace_root().join("crates/baton/src/settings.rs")).unwrap();
    let listed: BTreeSet<String> =
        list.split("SectionInfo::of::<").skip(1).map(|rest| rest.split('>').next().unwrap().to_owned()).collect();
    assert_eq!(found, listed, "each `impl Section` belongs into SECTIONS of settings.rs");
    // And whoever runs an agent reads all of them: a section that nobody reads is reported as unknown.
    let world = World::new();
    let schema = json_of(&world.baton(&["config", "schema"]).expect(0));
    let keys = schema["properties"].as_object().unwrap().keys().filter(|key| *key != "$schema");
    let empty: serde_json::Map<String, Value> = keys.map(|key| (key.clone(), Value::Null)).collect();
    user(&world, &Value::Object(empty).to_string().replace("\"permissions\":null", "\"permissions\":{}"));
    let said = world.play(r#"{"say":"ok"}"#, &[]).expect(0).of("notice");
    assert!(!json!(said).to_string().contains("unknown setting"), "{said:?}");
}

#[test]
fn explain_says_who_set_what_and_what_that_overrode() {
    let world = World::new();
    user(&world, "{\n  // mine\n  \"limits\": { \"steps\": 3 },\n  \"model\": \"a/user\"\n}");
    world.file(".baton/config.jsonc", "{\n\n\n\"model\": \"a/project\"}");
    let model = explained(&world, "model");
    assert_eq!(model["value"], "a/project");
    let source = |value: &Value, layer: &str, line: u64| {
        assert_eq!((value["layer"].as_str().unwrap(), value["line"].as_u64().unwrap()), (layer, line), "{value}");
    };
    source(&model["set_by"][0], "project", 4);
    source(&model["overridden"][0], "user", 4);
    assert_eq!(model["overridden"][0]["value"], "a/user");
    let steps = explained(&world, "limits.steps");
    assert_eq!((&steps["value"], &steps["default"]), (&json!(3), &json!(500)));
    assert!(steps["description"].as_str().unwrap().contains("Model calls"));
    let mut command = world.command(&["config", "explain", "limits"]);
    command.env("BATON_LIMITS__STEPS", "9");
    let text = run(command).expect(0).stdout;
    assert!(text.contains("limits.steps = 9 (default 500)\n    set by BATON_LIMITS__STEPS (environment)"), "{text}");
    assert!(text.contains("overrides 3 of ") && text.contains("config.jsonc:3 (user)"), "{text}");
    assert!(text.contains("limits.usd = -"), "{text}");
    let all = json_of(&world.baton(&["config", "explain", "--json"]).expect(0));
    assert!(all.as_array().unwrap().len() > 30);
    world.baton(&["config", "explain", "limitz"]).expect_error(2, "unknown setting `limitz`", "did you mean `limits`?");
}

#[test]
fn check_names_every_problem_with_file_and_line() {
    let world = World::new();
    world.baton(&["config", "check"]).expect(0);
    user(
        &world,
        "{\n\"$schema\": \"./s.json\",\n\"modle\": \"x\",\n\"limits\": {\"steps\": \"many\",\n\"stepz\": 1},\n\"permissions\": {\"deny\": [\"Bash(ls | sh)\"],\n\"allow\": [\"Bash(ls | sh)\"]}}",
    );
    world.file(
        ".baton/config.jsonc",
        "{\n\"network\": {},\n\"permissions\": {\"deny\": [],\n\"allow\": [\"Bash(ls)\"]}}",
    );
    world.file(".baton/local.jsonc", "{\n\"model\": \n");
    let managed = world.file("managed.jsonc", "{\n\"permissions\": {\"allow\": [\"Bash\"]},\n\"model\": \"x/y\"}");
    let mut command = world.command(&["config", "check", "--json"]);
    command.env("BATON_MANAGED", managed);
    let problems = json_of(&run(command).expect(2));
    let found: BTreeSet<(String, String, String, u64)> = problems
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| {
            let file = problem["file"].as_str().unwrap().rsplit('/').take(2).collect::<Vec<_>>();
            let text = |key: &str| problem[key].as_str().unwrap().to_owned();
            (format!("{}/{}", file[1], file[0]), text("problem"), text("key"), problem["line"].as_u64().unwrap())
        })
        .collect();
    let expected = [
        (".baton/config.jsonc", "not_trusted", "network", 2),
        (".baton/config.jsonc", "not_trusted", "permissions.allow", 4),
        (".baton/local.jsonc", "unreadable", "", 3),
        ("home/config.jsonc", "unknown", "limits.stepz", 5),
        ("home/config.jsonc", "unknown", "modle", 3),
        ("home/config.jsonc", "wrong", "limits.steps", 4),
        ("home/config.jsonc", "wrong", "permissions.allow.0", 7),
        ("home/config.jsonc", "wrong", "permissions.deny.0", 6),
        ("project/managed.jsonc", "widens", "model", 3),
        ("project/managed.jsonc", "widens", "permissions.allow", 2),
    ];
    let expected: BTreeSet<_> =
        expected.map(|(file, problem, key, line)| (file.into(), problem.into(), key.into(), line)).into();
    assert_eq!(found, expected, "{problems:#}");
    let text = world.baton(&["config", "check"]).expect(2).stdout;
    assert!(text.contains("config.jsonc:3: unknown setting `modle`; did you mean `model`?"), "{text}");
    assert!(text.contains("config.jsonc:5: unknown setting `limits.stepz`; did you mean `limits.steps`?"), "{text}");
}

#[test]
fn one_wrong_field_warns_and_the_rest_of_the_file_counts() {
    let world = World::new();
    user(&world, "{\n\"limits\": {\"steps\": 1},\n\"retry\": {\"transient\": {\"attempts\": \"x\"}},\n\"model\": 5}");
    let script = "{\"call\":[{\"tool\":\"ls\",\"input\":{}}]}\n{\"say\":\"late\"}";
    let run = world.play(script, &[]).expect(5);
    let said = json!(run.of("notice")).to_string();
    assert!(said.contains("config.jsonc:3: `retry.transient.attempts`: invalid type"), "{said}");
    assert!(said.contains("config.jsonc:4: `model`: invalid type"), "{said}");
    // What would hold the agent back cannot be left out.
    user(&world, "{\n\"limits\": {\"usd\": \"five\"}}");
    world.play(script, &[]).expect_error(2, "config.jsonc:2: `limits.usd`", "holds the agent back");
    user(&world, "{\n\"permissions\": {\n\"deny\": \"Bash\"}}");
    world.play(script, &[]).expect_error(2, "config.jsonc:3: `permissions.deny`", "mend");
}

#[test]
fn set_keeps_comments_and_refuses_what_does_not_fit() {
    let world = World::new();
    let mine = "// mine\n{\n  \"model\": \"x/y\", // the best\n  \"limits\": {\n    \"steps\": 5, /* few */\n  },\n}\n";
    user(&world, mine);
    let run = world.baton(&["config", "set", "limits.steps", "7"]).expect(0);
    assert!(run.stderr.contains("config.jsonc:5"), "{run:?}");
    assert_eq!(read_user(&world), mine.replace("5, /* few */", "7, /* few */"));
    world.baton(&["config", "set", "limits.usd", "2.5"]).expect(0);
    assert_eq!(read_user(&world), mine.replace("5, /* few */", "7, /* few */\n    \"usd\": 2.5,"));
    world.baton(&["config", "unset", "limits.usd"]).expect(0);
    world.baton(&["config", "set", "limits.steps", "5"]).expect(0);
    assert_eq!(read_user(&world), mine);
    world.baton(&["config", "unset", "limits.usd"]).expect_error(2, "`limits.usd` is not set here", "explain");
    for (key, value, message, hint) in [
        ("limits.stepz", "5", "unknown setting `limits.stepz`", "did you mean `limits.steps`"),
        ("colour", "red", "unknown setting `colour`", "lists all"),
        ("limits.steps", "many", "expected u32", "baton config explain limits.steps"),
        ("limits", "5", "cannot be set so", "explain"),
        ("permissions.deny", "[\"Bash(ls | sh)\"]", "Bash(ls | sh)", "explain"),
        ("limits..steps", "5", "is no key", "quotes"),
        ("sandbox.level", "steel", "unknown variant", "explain"),
    ] {
        world.baton(&["config", "set", key, value]).expect_error(2, message, hint);
        assert_eq!(read_user(&world), mine, "{key}");
    }
    // Text where JSON does not fit; names with dots in quotes.
    world.baton(&["config", "set", "providers.box.headers.x-id", "123"]).expect(0);
    world.baton(&["config", "set", "models.\"box/m-1.5\".context", "9000"]).expect(0);
    assert_eq!(explained(&world, "models.\"box/m-1.5\".context")["value"], 9000);
    world.baton(&["config", "check"]).expect(0);
    user(&world, "{\"limits\": ");
    world.baton(&["config", "set", "limits.steps", "7"]).expect_error(2, "line 1", "left as it is");
    assert_eq!(read_user(&world), "{\"limits\": ");
}

#[test]
fn set_makes_files_and_heeds_what_a_repository_may_say() {
    let world = World::new();
    world.baton(&["config", "set", "--project", "model", "anthropic/default"]).expect(0);
    assert_eq!(world.read(".baton/config.jsonc"), "{\n  \"model\": \"anthropic/default\"\n}\n");
    world.baton(&["config", "set", "--local", "limits.steps", "7"]).expect(0);
    assert_eq!(world.read(".baton/.gitignore"), "local.jsonc\nruns/\n");
    // What the person has written is trusted, since there was nothing else to be trusted.
    assert_eq!(explained(&world, "limits.steps")["value"], 7);
    let never = world.baton(&["config", "set", "--project", "network.ca_file", "/x"]);
    never.expect_error(2, "a repository may never set `network.ca_file`", "--user");
    let mut command = world.command(&["config", "set", "limits.steps", "8"]);
    command.env("BATON_LIMITS__STEPS", "9");
    assert!(run(command).expect(0).stderr.contains("but BATON_LIMITS__STEPS (environment) counts more"));
    // A repository that came with something of its own is not trusted by adding to it.
    let world = World::new();
    world.file(".baton/config.jsonc", "{\"permissions\": {\"allow\": [\"Bash(make:*)\"]}}");
    let run = world.baton(&["config", "set", "--local", "limits.steps", "7"]).expect(0);
    assert!(run.stderr.contains("counts after `baton trust`"), "{run:?}");
    assert_eq!(explained(&world, "limits.steps")["value"], 500);
    let allow = explained(&world, "permissions.allow");
    assert_eq!((&allow["value"], &allow["problems"][0]["problem"]), (&json!([]), &json!("not_trusted")));
}

#[test]
fn set_writes_nowhere_else() {
    let world = World::new();
    let outside = world.home().join("outside");
    fs::create_dir_all(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, world.project().join(".baton")).unwrap();
    world.baton(&["config", "set", "--local", "limits.steps", "7"]).expect_error(2, "is a link to", "remove the link");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    let home = world.home().parent().unwrap().to_owned();
    let args = ["-C", home.to_str().unwrap(), "config", "set", "--project", "limits.steps", "7"];
    world.baton(&args).expect_error(2, "is too wide to be a project", "--user");
    // The person's own file may be a link, and stays one.
    fs::write(outside.join("mine.jsonc"), "{} // mine\n").unwrap();
    std::os::unix::fs::symlink(outside.join("mine.jsonc"), world.home().join("config.jsonc")).unwrap();
    world.baton(&["config", "set", "limits.steps", "7"]).expect(0);
    assert!(world.home().join("config.jsonc").symlink_metadata().unwrap().is_symlink());
    assert!(fs::read_to_string(outside.join("mine.jsonc")).unwrap().ends_with("// mine\n"));
}

#[test]
fn changes_at_the_same_time_lose_nothing() {
    let world = World::new();
    user(&world, "// mine\n{\n  \"limits\": {}, // caps\n}\n");
    let start = |args: &[&str]| -> Child {
        let mut command = world.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut children: Vec<Child> = Vec::new();
    for n in 0..16 {
        children.push(start(&["config", "set", &format!("models.\"box/m{n}\".context"), &format!("{}", 1000 + n)]));
        children.push(start(&["guard", "add", &format!("Bash(tool{n}:*)")]));
        children.push(start(&["config", "set", "--local", &format!("aliases.p{n}.fast"), "m"]));
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let text = read_user(&world);
    assert!(text.starts_with("// mine\n{\n  \"limits\": {}, // caps\n"), "{text}");
    let local = world.read(".baton/local.jsonc");
    for n in 0..16 {
        assert_eq!(explained(&world, &format!("models.\"box/m{n}\".context"))["value"], 1000 + n);
        assert!(text.contains(&format!("Bash(tool{n}:*)")), "{text}");
        assert!(local.contains(&format!("\"p{n}\"")), "{local}");
    }
    // Trust went along with each of them.
    assert_eq!(explained(&world, "aliases.p7.fast")["value"], "m");
    world.baton(&["config", "check"]).expect(0);
}

#[test]
fn secrets_are_not_shown() {
    let world = World::new();
    let key = "zq81-very-private-0042";
    fs::create_dir_all(world.home()).unwrap();
    fs::write(world.home().join("token"), format!("{key}\n")).unwrap();
    user(
        &world,
        &json!({
            "providers": {"a": {"headers": {"authorization": format!("Bearer {key}"), "x-other": "{env:TOKEN}"}, "wire": ["{env:TOKEN}"]}},
            "model": "{file:token}",
            "limits": {"steps": "{env:TOKEN}"},
            "aliases": {"a": {"fast": "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOp-AA"}},
            "permissions": {"allow": ["{env:TOKEN} (x"]},
        })
        .to_string(),
    );
    for args in [
        &["config", "explain"][..],
        &["config", "explain", "--json"],
        &["config", "check"],
        &["config", "check", "--json"],
    ] {
        let mut command = world.command(args);
        command.env("TOKEN", key);
        let run = run(command);
        assert!(!format!("{run:?}").contains(key), "{args:?}: {run:?}");
        assert!(!run.stdout.contains("AbCdEfGhIjKl"), "{args:?}: {run:?}");
    }
    let mut command = world.command(&["config", "explain", "providers.a.headers"]);
    command.env("TOKEN", key);
    let text = run(command).expect(0).stdout;
    assert!(text.contains("authorization = (set; not shown)"), "{text}");
    assert_eq!(explained(&world, "model")["value"], "{file:token}");
}

#[test]
fn texts_are_filled_in_where_they_are_the_persons_own() {
    let world = World::new();
    let server = world.serve(r#"{"say":"hello"}"#);
    let box_ =
        json!({"base_url": "{env:BOX_URL}/v1", "wire": "chat", "key_env": "", "headers": {"x-token": "{file:token}"}});
    user(&world, &json!({"providers": {"box": box_.clone()}, "model": "box/m"}).to_string());
    fs::write(world.home().join("token"), "t\n").unwrap();
    let mut command = world.command(&["exec", "hi"]);
    command.env("BOX_URL", &server.url);
    assert!(run(command).expect(0).stdout.contains("hello"));
    // A rule that cannot be filled in is not simply left out.
    let world = World::new();
    user(&world, "{\n\"permissions\": {\"deny\": [\"{env:RULE}\"]}}");
    world.play(r#"{"say":"ok"}"#, &[]).expect_error(
        2,
        "config.jsonc:2: `permissions.deny.0`: the variable RULE",
        "mend",
    );
    user(&world, &json!({"providers": {"box": box_}, "model": "box/m"}).to_string());
    fs::write(world.home().join("token"), "t\n").unwrap();
    // A variable that is not set is named, with its place.
    let said = world.baton(&["config", "check"]).expect(2).stdout;
    assert!(said.contains("config.jsonc:1: `providers.box.base_url`: the variable BOX_URL is not set"), "{said}");
    // What comes with a repository gets nothing filled in.
    let world = World::new();
    world.file(".baton/config.jsonc", r#"{"model": "a/{env:SECRET}"}"#);
    let mut command = world.command(&["config", "check"]);
    command.env("SECRET", "zq81-private");
    let run = run(command).expect(2);
    assert!(run.stdout.contains("`model` is left out: nothing is filled in where"), "{run:?}");
    assert_eq!(explained(&world, "model")["value"], Value::Null);
}

#[test]
fn managed_settings_only_tighten() {
    let world = World::new();
    let managed = world.file(
        "managed.jsonc",
        r#"{"limits": {"steps": 1}, "permissions": {"deny": ["Bash(make:*)"], "allow": ["Bash(curl:*)"], "mode": "plan"}}"#,
    );
    user(&world, r#"{"limits": {"steps": 100}, "permissions": {"allow": ["Bash(make:*)"]}}"#);
    let script = "{\"call\":[{\"tool\":\"write\",\"input\":{\"path\":\"a\",\"content\":\"b\"}}]}\n{\"say\":\"late\"}";
    let model = world.script(script);
    let mut command =
        world.command(&["exec", "-m", &model, "--json", "--permission-mode", "yolo", "--max-steps", "50", "go"]);
    command.env("BATON_MANAGED", &managed);
    let run_ = run(command).expect(5);
    assert_eq!(run_.events()[0]["mode"], "plan");
    assert!(run_.outputs()[0].starts_with("refused: "), "{:?}", run_.outputs());
    let said = json!(run_.of("notice")).to_string();
    assert!(said.contains("no wider permission mode than plan"), "{said}");
    assert!(said.contains("`permissions.allow` is ignored here: managed settings may only tighten"), "{said}");
    let explain = |key: &str| {
        let mut command = world.command(&["config", "explain", key, "--json"]);
        command.env("BATON_MANAGED", &managed);
        json_of(&run(command).expect(0))[0].take()
    };
    assert_eq!(
        (explain("limits.steps")["value"].clone(), explain("limits.steps")["set_by"][0]["layer"].clone()),
        (json!(1), json!("managed"))
    );
    assert_eq!(explain("permissions.allow")["value"], json!(["Bash(make:*)"]));
    assert_eq!(explain("permissions.deny")["value"], json!(["Bash(make:*)"]));
    assert_eq!(explain("permissions.mode")["value"], "plan");
    // What is wrong in them is never left out.
    fs::write(&managed, r#"{"limits": {"steps": "few"}}"#).unwrap();
    let mut command = world.command(&["exec", "-m", &model, "go"]);
    command.env("BATON_MANAGED", &managed);
    run(command).expect_error(2, "managed.jsonc:1: `limits.steps`", "mend");
}

#[test]
fn instructions_of_all_layers_are_joined() {
    let world = World::new();
    user(&world, r#"{"instructions": ["mine.md"]}"#);
    fs::write(world.home().join("mine.md"), "always use tabs").unwrap();
    world.file("docs/rules.md", "never use tabs");
    world.baton(&["config", "set", "--local", "instructions", "[\"docs/rules.md\"]"]).expect(0);
    let run =
        world.play("{\"when\":\"(?s)always use tabs.*never use tabs\",\"say\":\"both\"}\n{\"say\":\"not both\"}", &[]);
    assert_eq!(run.expect(0).end()["text"], "both");
    let setting = explained(&world, "instructions");
    assert_eq!(setting["value"], json!(["mine.md", "docs/rules.md"]));
    assert_eq!(setting["set_by"].as_array().unwrap().len(), 2);
}

#[test]
fn the_schema_fits_the_settings_of_the_readme() {
    let world = World::new();
    let schema = json_of(&world.baton(&["config", "schema"]).expect(0));
    let readme = fs::read_to_string(workspace_root().join("README.md")).unwrap();
    let sample = readme.split("```jsonc\n").nth(1).unwrap().split("```").next().unwrap();
    user(&world, sample);
    let checked = world.baton(&["config", "check"]).expect(0);
    assert_eq!(checked.stdout, "nothing is wrong\n");
    let layer = baton_config::Layer::parse(baton_config::LayerKind::User, "s".as_ref(), sample).unwrap();
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("file:///settings.json", schema.clone()).unwrap();
    let whole = compiler.compile("file:///settings.json", &mut schemas).unwrap();
    let fits = |value: &Value| schemas.validate(value, whole).is_ok();
    let sample = Value::Object(layer.values);
    assert!(fits(&sample), "{:?}", schemas.validate(&sample, whole).err());
    for wrong in
        [json!({"limitz": {}}), json!({"limits": {"stepz": 1}}), json!({"limits": {"steps": "x"}}), json!({"model": 5})]
    {
        assert!(!fits(&wrong), "{wrong}");
    }
    let steps = &schema["properties"]["limits"]["properties"]["steps"];
    assert_eq!((&steps["default"], steps["description"].is_string()), (&json!(500), true));
    assert_eq!(schema["properties"]["retry"]["properties"]["rate_limited"]["properties"]["attempts"]["default"], 10);
    // Whatever may be set has words for people.
    let mut open = vec![(String::new(), &schema)];
    while let Some((path, at)) = open.pop() {
        for (name, inner) in at["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            assert!(inner["description"].is_string(), "{path} has no description");
            open.push((path, inner));
        }
    }
}

#[test]
fn shells_complete_keys() {
    let world = World::new();
    let script = world.baton(&["completions", "bash"]).expect(0).stdout;
    assert!(script.contains("network.connect_timeout_ms"), "{script}");
}
