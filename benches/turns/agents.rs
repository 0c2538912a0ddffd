//! The agents that are compared: how each is started without a screen against a local model.

use std::path::{Path, PathBuf};

use crate::instant_model::Wire;

/// An agent under measurement.
pub struct Agent {
    pub name: &'static str,
    pub program: PathBuf,
    pub wire: Wire,
    /// Its shell tool and the field that takes the command.
    pub shell: (&'static str, &'static str),
    args: &'static [&'static str],
    /// Variables; `{url}` is the model.
    pub env: &'static [(&'static str, &'static str)],
    /// Settings files below its home; `{url}` is the model.
    pub files: &'static [(&'static str, &'static str)],
}

const PROMPT: &str = "Run the steps one after another, then say that you are done.";

impl Agent {
    /// The whole command line.
    pub fn command(&self) -> Vec<String> {
        let program = self.program.display().to_string();
        std::iter::once(program).chain(self.args.iter().map(|arg| arg.replace("{prompt}", PROMPT))).collect()
    }
}

const AUTO: &[&str] = &["exec", "-m", "anthropic/claude-sonnet-4-5", "--permission-mode", "auto", "{prompt}"];
const YOLO: &[&str] = &["exec", "-m", "anthropic/claude-sonnet-4-5", "--permission-mode", "yolo", "{prompt}"];
const ENV: &[(&str, &str)] = &[("ANTHROPIC_BASE_URL", "{url}"), ("ANTHROPIC_API_KEY", "x")];
const LANDLOCK: &[(&str, &str)] = &[ENV[0], ENV[1], ("BATON_SANDBOX__LEVEL", "landlock")];

/// Baton, and the others that are on the path.
pub fn installed() -> Vec<Agent> {
    let baton = |name, args, env| Agent {
        name,
        program: PathBuf::from(env!("CARGO_BIN_EXE_baton")),
        wire: Wire::Anthropic,
        shell: ("bash", "command"),
        args,
        env,
        files: &[],
    };
    // With the best sandbox, with the quick one, and without any, as the others run.
    let mut agents = vec![baton("baton", AUTO, ENV), baton("landlock", AUTO, LANDLOCK), baton("yolo", YOLO, ENV)];
    for (name, agent) in [("codex", codex as fn(PathBuf) -> Agent), ("goose", goose), ("pi", pi)] {
        match on_path(name) {
            Some(program) => agents.push(agent(program)),
            None => println!("{name} is not installed and left out"),
        }
    }
    agents
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| Path::is_file(file))
}

fn codex(program: PathBuf) -> Agent {
    Agent {
        name: "codex",
        program,
        wire: Wire::Responses,
        shell: ("exec_command", "cmd"),
        args: &["exec", "--json", "--skip-git-repo-check", "{prompt}"],
        env: &[("MODEL_KEY", "x")],
        files: &[(
            ".codex/config.toml",
            "model = \"m\"\nmodel_provider = \"local\"\napproval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n\
             check_for_update_on_startup = false\n[analytics]\nenabled = false\n[model_providers.local]\nname = \"local\"\n\
             base_url = \"{url}/v1\"\nwire_api = \"responses\"\nenv_key = \"MODEL_KEY\"\n",
        )],
    }
}

fn goose(program: PathBuf) -> Agent {
    Agent {
        name: "goose",
        program,
        wire: Wire::Chat,
        shell: ("shell", "command"),
        args: &["run", "--no-session", "--with-builtin", "developer", "-t", "{prompt}"],
        env: &[
            ("GOOSE_PROVIDER", "openai"),
            ("GOOSE_MODEL", "m"),
            ("OPENAI_HOST", "{url}"),
            ("OPENAI_API_KEY", "x"),
            ("GOOSE_MODE", "auto"),
            ("GOOSE_DISABLE_KEYRING", "1"),
            ("GOOSE_TELEMETRY_OFF", "1"),
        ],
        files: &[],
    }
}

fn pi(program: PathBuf) -> Agent {
    Agent {
        name: "pi",
        program,
        wire: Wire::Chat,
        shell: ("bash", "command"),
        args: &["-p", "--provider", "local", "--model", "m", "{prompt}"],
        env: &[("PI_OFFLINE", "1"), ("PI_TELEMETRY", "0"), ("PI_SKIP_VERSION_CHECK", "1")],
        files: &[(
            ".pi/agent/models.json",
            "{\"providers\":{\"local\":{\"baseUrl\":\"{url}/v1\",\"api\":\"openai-completions\",\"apiKey\":\"x\",\
             \"models\":[{\"id\":\"m\",\"contextWindow\":400000,\"maxTokens\":32000}]}}}",
        )],
    }
}
