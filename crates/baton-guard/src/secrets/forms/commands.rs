//! The forms of tokens: headers and command lines that carry a secret at a known place. Values are made up; the marks inside keep other scanners calm.

use super::{Check, Form};

#[rustfmt::skip]
pub(super) static FORMS: &[Form] = &[
    Form {
        kind: "authorization", anchors: &["authorization"],
        ahead: r#"(?i)authorization[\"'\\]*\s*[:=,]\s*\[?[\"'\\]*(?:bearer|basic|token|negotiate|apikey|api-key|ssws|key|bot|oauth|splunk|geniekey|pat|jwt)[ ]+([^\s\"'\\,\]}<>]{8,})"#,
        behind: "", check: Check::Random,
        like: &[
            "Authorization: Bearer «bBSdlUTjRopgF⟦+⟧GzhfVOXHUg1gS⟦+⟧uTXPa65gRmm5Pb»",
            r#""authorization": "token «e86440285b86c⟦+⟧e53935fd16ccd⟦+⟧6b9ccc6c4ae127»""#,
            "-H 'Authorization: SSWS «00JWui68qnvXWV⟦+⟧LTb9rNTScqkmKi⟦+⟧ayB3cw7B4wAMdz»'",
            "Proxy-Authorization: Basic «dXNlcjpw⟦+⟧YXNzd29y⟦+⟧ZDEyMzQ1»",
        ],
        unlike: &[
            "Authorization: Bearer <token>",
            "Authorization: Bearer ${TOKEN}",
            "Authorization: Bearer YOUR_ACCESS_TOKEN",
            "Authorization: Bearer token",
            "authorization: bearer authentication is required",
        ],
    },
    Form {
        kind: "authorization", anchors: &["authorization"],
        ahead: r#"(?i)authorization[\"'\\]*\s*[:=]\s*[\"'\\]*([A-Za-z0-9_.=+/-]{20,})"#,
        behind: "", check: Check::Random,
        like: &[
            "Authorization: «QPBlGdtalqgFP⟦+⟧cSNDXkC41Hw2l⟦+⟧Botlz4sfjJ0ZJ5»",
        ],
        unlike: &[
            "authorization: required",
        ],
    },
    Form {
        kind: "authorization", anchors: &["bearer "],
        ahead: "(?i)bearer[ ]+([A-Za-z0-9_.~+/=-]{16,})",
        behind: "", check: Check::Random,
        like: &[
            "sent Bearer «idRWZKMFtk⟦+⟧yxqoVmb7MzS⟦+⟧krUD7gXgGCV» to host",
        ],
        unlike: &[
            "bearer authentication-scheme is used",
        ],
    },
    Form {
        kind: "authorization", anchors: &["basic "],
        ahead: "(?i)basic[ ]+([A-Za-z0-9+/]{12,}={0,2})",
        behind: "", check: Check::Basic,
        like: &[
            "sent Basic «c3ZjOk1L⟦+⟧NEFMb0Rt⟦+⟧SmpHQg==»",
        ],
        unlike: &[
            "basic functionality works",
            "Basic dGhpcyBpcyBwbGFpbg==",
        ],
    },
    Form {
        kind: "signature", anchors: &["signature="],
        ahead: "(?i)signature=([a-f0-9]{40,}|[A-Za-z0-9%+/]{40,}={0,2})",
        behind: "", check: Check::Real,
        like: &[
            "AWS4-HMAC-SHA256 Credential=x, Signature=«888deeeea35374646fa6a⟦+⟧ef1515e22e00fd2d741d7⟦+⟧a9fdc10a1d67a0031dffb3»",
        ],
        unlike: &[
            "signature=fn(a: u32) -> u32",
        ],
    },
    Form {
        kind: "cookie", anchors: &["cookie"],
        ahead: r#"(?i)cookies?[\"'\\]*\s*[:,=]\s*[\"'\\]*([A-Za-z0-9_.-]+=[^\"'\r\n]+)"#,
        behind: "", check: Check::Cookie,
        like: &[
            "Cookie: «theme=dark; sid=⟦+⟧lYlUA9YoQan9Efih⟦+⟧YGfGZqGfubzgmBHu»",
            "Set-Cookie: «session=8mF1jA8fs7wNlG⟦+⟧qnezD36S9mFlBSpHfDVhew⟦+⟧cpSM; Path=/; HttpOnly»",
        ],
        unlike: &[
            "Cookie: theme=dark; lang=en",
            "Set-Cookie: flavour=chocolate; Path=/",
        ],
    },
    Form {
        kind: "password", anchors: &["curl"],
        ahead: r#"curl\b[^\n|;&]*?\s(?:-[a-zA-Z]*u|--user|--proxy-user|-U)[ =]*[\"']?[^\s:\"']{0,64}:([^\s"']{4,})"#,
        behind: "", check: Check::Password,
        like: &[
            "curl -sS -u admin:«6HA4⟦+⟧BE8r⟦+⟧qfTV» https://h",
            "curl --user 'bot:«x9!⟦+⟧kQ⟦+⟧2mz»' https://h",
        ],
        unlike: &[
            "curl -u $USER:$PASS https://h",
            "curl https://host:8080/path",
            "curl -u user:password https://h",
        ],
    },
    Form {
        kind: "password", anchors: &["mysql", "mariadb"],
        ahead: r#"(?:mysql|mariadb)(?:dump|admin|import|show|check|-dump|-admin)?\b[^\n|;&]*?\s-p[\"']?([^\s\"'-][^\s\"']{3,})"#,
        behind: "", check: Check::Password,
        like: &[
            "mysql -u root -p«EUb3⟦+⟧pkIvN⟦+⟧kBRWs» app",
            "mysqldump -h db -uapp -p'«s3c⟦+⟧r3t⟦+⟧-Pw»' app",
        ],
        unlike: &[
            "mysql -u root -p app",
            "mysql --protocol tcp -P 3306",
        ],
    },
    Form {
        kind: "password", anchors: &["sshpass"],
        ahead: r#"sshpass\s+-p\s*[\"']?([^\s"']{4,})"#,
        behind: "", check: Check::Password,
        like: &[
            "sshpass -p «hV7⟦+⟧#m⟦+⟧q2L» ssh h",
            "sshpass -p'«hV7⟦+⟧mq⟦+⟧2L»' ssh h",
        ],
        unlike: &[
            r#"sshpass -p "$PW" ssh h"#,
        ],
    },
    Form {
        kind: "password", anchors: &[" login "],
        ahead: r#"\slogin\s[^\n|;&]*?-p[ =]+[\"']?([^\s"']{4,})"#,
        behind: "", check: Check::Password,
        like: &[
            "docker login -u bot -p «dV2⟦+⟧nPq⟦+⟧8LwZ» reg.example.org",
            "az login --service-principal -u x -p «q8~⟦+⟧Zx1⟦+⟧mnB4»",
        ],
        unlike: &[
            "docker login -u bot --password-stdin",
            "docker login -u bot -p $TOKEN",
        ],
    },
    Form {
        kind: "password", anchors: &["redis-cli"],
        ahead: r#"redis-cli\b[^\n|;&]*?\s-a[ ]+[\"']?([^\s"']{4,})"#,
        behind: "", check: Check::Password,
        like: &[
            "redis-cli -h r -a «Zk3⟦+⟧mQ⟦+⟧9xB» ping",
        ],
        unlike: &[],
    },
    Form {
        kind: "password", anchors: &["-pass"],
        ahead: r#"-pass(?:in|out|word)?\s+pass:([^\s"']{4,})"#,
        behind: "", check: Check::Password,
        like: &[
            "openssl rsa -passin pass:«Mn4⟦+⟧kq⟦+⟧8Zr» -in k.pem",
        ],
        unlike: &[
            "-passin pass:$PW",
        ],
    },
    Form {
        kind: "password", anchors: &["ldap"],
        ahead: r#"ldap(?:search|modify|add|delete|passwd|whoami)\b[^\n|;&]*?\s-w[ ]+[\"']?([^\s"']{4,})"#,
        behind: "", check: Check::Password,
        like: &[
            "ldapsearch -x -D cn=admin -w «Qz7⟦+⟧pL⟦+⟧m2w» -b dc=x",
        ],
        unlike: &[],
    },
    Form {
        kind: "password", anchors: &["smbclient", "rpcclient"],
        ahead: r#"(?:smb|rpc)client\b[^\n|;&]*?\s-U[ ]+[\"']?[^\s%\"']+%([^\s"']{4,})"#,
        behind: "", check: Check::Password,
        like: &[
            "smbclient //h/s -U bob%«Hq4⟦+⟧nZ⟦+⟧8wK»",
        ],
        unlike: &[],
    },
    Form {
        kind: "password", anchors: &["zip", "unzip", "7z"],
        ahead: r#"(?:(?:un)?zip\b[^\n|;&]*?\s-P[ ]+|7za?\s[^\n|;&]*?\s-p)[\"']?([^\s"']{4,})"#,
        behind: "", check: Check::Password,
        like: &[
            "unzip -P «Vb6⟦+⟧tR⟦+⟧2yN» a.zip",
            "7z x -p«Vb6⟦+⟧tR⟦+⟧2yN» a.7z",
        ],
        unlike: &[
            "zip -r out.zip dir",
        ],
    },
    Form {
        kind: "password", anchors: &["mongo"],
        ahead: r#"mongo(?:sh|dump|restore|export|import)?\b[^\n|;&]*?\s-p[ ]+[\"']?([^\s"']{4,})"#,
        behind: "", check: Check::Password,
        like: &[
            "mongosh -u app -p «Wd5⟦+⟧fG⟦+⟧9hJ» --host h",
        ],
        unlike: &[],
    },
    Form {
        kind: "password", anchors: &["htpasswd"],
        ahead: r#"htpasswd\s+-[A-Za-z]*b[A-Za-z]*\s+\S+\s+\S+\s+[\"']?([^\s"']{4,})"#,
        behind: "", check: Check::Password,
        like: &[
            "htpasswd -bc .htpasswd bob «Ty8⟦+⟧uI⟦+⟧3oP»",
        ],
        unlike: &[],
    },
    Form {
        kind: "password", anchors: &["echo "],
        ahead: r#"echo\s+(?:-n\s+)?[\"']?(?:[^\s:\"'|]+:)?([^\s\"'|:]{4,})[\"']?\s*\|\s*(?:sudo\s+)?(?:sudo\s+-S|chpasswd|passwd\s+--stdin)"#,
        behind: "", check: Check::Password,
        like: &[
            "echo '«Gx7⟦+⟧cV⟦+⟧1bN»' | sudo -S apt update",
            r#"echo "bob:«Gx7⟦+⟧cV⟦+⟧1bN»" | chpasswd"#,
        ],
        unlike: &[
            "echo hello | sudo tee /etc/motd",
        ],
    },
    Form {
        kind: "password", anchors: &["identified "],
        ahead: r#"(?i)identified\s+(?:with\s+\S+\s+)?by\s+(?:password\s+)?[\"']([^\"']{4,})[\"']"#,
        behind: "", check: Check::Password,
        like: &[
            "CREATE USER x IDENTIFIED BY '«Bn3⟦+⟧mK⟦+⟧7jH»'",
        ],
        unlike: &[
            "IDENTIFIED BY 'password'",
        ],
    },
    Form {
        kind: "password", anchors: &["login "],
        ahead: r#"(?i)login\s+\S+\s+password\s+([^\s"']{4,})"#,
        behind: "", check: Check::Random,
        like: &[
            "machine h.example.org login bot password «Rt5⟦+⟧yU⟦+⟧9iO»",
        ],
        unlike: &[
            "login user password required",
        ],
    },
    Form {
        kind: "password", anchors: &[":5432:", ":3306:"],
        ahead: r":\d{4}:[^:\s]{1,64}:[^:\s]{1,64}:([^\s:]{4,})",
        behind: "", check: Check::Password,
        like: &[
            "db.example.org:5432:app:app:«Fg4⟦+⟧hJ⟦+⟧8kL»",
        ],
        unlike: &[
            "127.0.0.1:5432:5432",
        ],
    },
    Form {
        kind: "password", anchors: &["-rabbit", "add_user "],
        ahead: r#"add_user\s+\S+\s+[\"']?([^\s"']{4,})"#,
        behind: "", check: Check::Password,
        like: &[
            "rabbitmqctl add_user svc «Op2⟦+⟧lK⟦+⟧6jH»",
        ],
        unlike: &[],
    },
    Form {
        kind: "authorization", anchors: &["digest "],
        ahead: r#"(?i)digest\s+username=[^\n|;&]*?response=[\"']?([a-f0-9]{32,64})"#,
        behind: "", check: Check::Real,
        like: &[
            r#"Authorization: Digest username="u", realm="r", response="«7ecb4e59b0⟦+⟧8f1350c2aa2⟦+⟧4c4913e4f36»""#,
        ],
        unlike: &[],
    },
];
