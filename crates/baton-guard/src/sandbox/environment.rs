//! Which variables a command in a sandbox gets: known ones, and none that may carry a secret.

/// Variables that programs and toolchains need.
const NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LINES",
    "TMPDIR",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "HOSTNAME",
    "CI",
    "DEBUG",
    "NODE_ENV",
    "CC",
    "CXX",
    "CPP",
    "LD",
    "AR",
    "AS",
    "NM",
    "RANLIB",
    "STRIP",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "MAKEFLAGS",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "MANPATH",
    "INFOPATH",
    "JAVA_HOME",
    "JDK_HOME",
    "M2_HOME",
    "MAVEN_OPTS",
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "VIRTUAL_ENV",
    "LESS",
    "SOURCE_DATE_EPOCH",
    "BATON_CALL",
    "BATON_CWD",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_PAGER",
    "GIT_EDITOR",
    "GIT_TERMINAL_PROMPT",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "RUSTC_WRAPPER",
    "GOPATH",
    "GOROOT",
    "GOFLAGS",
    "GOPROXY",
    "GOTOOLCHAIN",
];

/// Families of such variables.
const PREFIXES: &[&str] = &[
    "LC_",
    "XDG_",
    "CARGO_",
    "RUSTUP_",
    "RUST_TEST_",
    "PYTHON",
    "PIP_",
    "UV_",
    "POETRY_",
    "CONDA_",
    "NVM_",
    "NODE_",
    "NPM_CONFIG_",
    "npm_config_",
    "PNPM_",
    "YARN_",
    "BUN_",
    "DENO_",
    "VOLTA_",
    "FNM_",
    "GRADLE_",
    "CMAKE_",
    "PKG_CONFIG",
    "CCACHE_",
    "SCCACHE_",
    "NIX_",
    "PYENV_",
    "RBENV_",
    "ASDF_",
    "MISE_",
    "RUBY",
    "BUNDLE_",
    "DOTNET_",
    "TEST_",
    "GOOS",
    "GOARCH",
    "CGO_",
];

/// Words that tell a secret, wherever they stand in a name.
const SECRET_WORDS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PWD",
    "CREDENTIAL",
    "CREDENTIALS",
    "AUTH",
    "APIKEY",
    "KEY",
    "KEYS",
    "PAT",
    "COOKIE",
    "SESSION",
];

/// Whether a command may have the variable of this name.
pub fn may_have(name: &str) -> bool {
    if NAMES.contains(&name) {
        return true;
    }
    let is_known = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let is_secret = name.split('_').any(|word| {
        let word = word.to_ascii_uppercase();
        SECRET_WORDS.iter().any(|secret| word == *secret || (secret.len() > 4 && word.ends_with(secret)))
    });
    is_known && !is_secret
}

#[cfg(test)]
mod tests {
    use super::may_have;

    #[test]
    fn known_ones_pass_and_secrets_do_not() {
        for name in ["PATH", "LC_ALL", "CARGO_HOME", "PWD", "npm_config_cache", "PYTHONPATH", "XDG_CONFIG_HOME"] {
            assert!(may_have(name), "{name}");
        }
        for name in [
            "CARGO_REGISTRY_TOKEN",
            "CARGO_REGISTRIES_MINE_TOKEN",
            "NPM_CONFIG__AUTH",
            "NODE_AUTH_TOKEN",
            "UV_INDEX_MINE_PASSWORD",
            "PYTHON_KEYRING_APIKEY",
            "SSH_AUTH_SOCK",
            "DBUS_SESSION_BUS_ADDRESS",
            "XDG_SESSION_COOKIE",
            "AWS_PROFILE",
            "OPENAI_API_KEY",
            "LD_PRELOAD",
            "BASH_ENV",
            "ANYTHING",
        ] {
            assert!(!may_have(name), "{name}");
        }
    }
}
