check "Hello World" "hello-world"
check "baton" "baton"
