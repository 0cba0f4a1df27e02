# Runs on the server for as long as the tunnel's connection lives. $1 is the tunnel's name, $2 its token.
# Reads one request a line, "NUMBER VERB WORDS"; answers "NUMBER ok|no BASE64".
umask 077
name=$1 token=$2
folder=${XDG_STATE_HOME:-$HOME/.local/state}/devkit/adb-servers
file=$folder/tunnel-$name.json
adb_at=

is_mine() {
    case $(cat "$file" 2>/dev/null) in
        *"\"token\": \"$token\""*"\"pid\": $$,"* | *"\"pid\": $$,"*"\"token\": \"$token\""*) return 0 ;;
    esac
    return 1
}

forget() {
    if is_mine; then rm -f "$file"; fi
}

put() { # BASE64
    mkdir -p "$folder" || return 1
    printf %s "$1" | base64 -d >"$file.$$.tmp" && mv "$file.$$.tmp" "$file" && return 0
    rm -f "$file.$$.tmp"
    return 1
}

# The connection of a tunnel that broke may live on here, with its port, until sshd notices.
retire() { # PID
    case $(ps -o args= -p "$1" 2>/dev/null) in
        *"$token"*) ;;
        *) return 0 ;;
    esac
    session=$(ps -o ppid= -p "$1" | tr -d ' ')
    case $(ps -o comm= -p "$session" 2>/dev/null) in
        *sshd*) kill "$session" ;;
        *) kill "$1" ;;
    esac
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -9 "$1"
}

adb_connect() { # HOST:PORT
    command -v adb >/dev/null 2>&1 || { echo "there is no adb on the PATH of a non-interactive shell: $PATH"; return 1; }
    # An entry of an earlier tunnel is offline, and adb says that it is connected.
    adb disconnect "$1" >/dev/null 2>&1
    answer=$(adb connect "$1" 2>&1)
    adb_at=$1
    echo "$answer"
    case $answer in *"connected to"*) return 0 ;; esac
    return 1
}

leave() {
    trap - EXIT HUP TERM INT
    forget
    if [ -n "$adb_at" ]; then adb disconnect "$adb_at" >/dev/null 2>&1; fi
    exit 0
}
trap leave EXIT HUP TERM INT

echo "devkit-far-side $token $$"
while IFS=' ' read -r number verb word; do
    case $verb in
        ping) said=; ok=ok ;;
        put) said=$(put "$word" 2>&1) && ok=ok || ok=no ;;
        forget) said=$(forget 2>&1) && ok=ok || ok=no ;;
        retire) said=$(retire "$word" 2>&1) && ok=ok || ok=no ;;
        adb-connect) adb_at=$word; said=$(adb_connect "$word" 2>&1) && ok=ok || ok=no ;;
        adb-state) said=$(adb -s "$word" get-state 2>&1) && ok=ok || ok=no ;;
        leave) break ;;
        *) said="unknown request $verb"; ok=no ;;
    esac
    echo "$number $ok $(printf %s "$said" | base64 | tr -d '\n')"
done
