// The conformance driver: the public API over standard input and output. Contract: conformance/DRIVER.md.

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include <ticketing/ticketing.hpp>

namespace {

using Arguments = std::map<std::string, std::string>;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct BadCommand {};

const std::map<std::string, std::set<std::string>> known = {
    {"open", {"addrs", "mode", "fingerprint", "token", "tls", "server_name", "pending"}},
    {"ready", {"broker", "timeout_ms"}},
    {"acquire", {"broker", "key", "wait_ms", "lease", "budget_ms"}},
    {"acquire-set", {"broker", "keys", "wait_ms", "lease", "budget_ms"}},
    {"cancel", {"target"}},
    {"release", {"ticket"}},
    {"drop", {"ticket"}},
    {"close", {"broker"}},
    {"pairs", {"broker", "key", "callers", "count"}},
};

std::mutex output_lock;

void print(const std::string &tag, const std::string &text) {
    const std::lock_guard lock(output_lock);
    std::cout << tag << ' ' << text << '\n' << std::flush;
}

std::string error_text(ticketing_status status) {
    std::string text = std::string("error ") + ticketing_status_name(status);
    const int code = ticketing_rejection_code(status);
    return code == 0 ? text : text + ' ' + std::to_string(code);
}

// Things that tags name.
template <typename T> class Registry {
  public:
    void put(const std::string &tag, std::shared_ptr<T> thing) {
        const std::lock_guard lock(lock_);
        things_[tag] = std::move(thing);
    }

    std::shared_ptr<T> find(const std::string &tag) {
        const std::lock_guard lock(lock_);
        const auto found = things_.find(tag);
        if (found == things_.end()) {
            throw BadCommand();
        }
        return found->second;
    }

    void remove(const std::string &tag) {
        std::shared_ptr<T> last;
        const std::lock_guard lock(lock_);
        things_[tag].swap(last);
        things_.erase(tag);
    }

    void clear() {
        std::map<std::string, std::shared_ptr<T>> all;
        {
            const std::lock_guard lock(lock_);
            all.swap(things_);
        }
    }

  private:
    std::mutex lock_;
    std::map<std::string, std::shared_ptr<T>> things_;
};

Registry<ticketing::Broker> brokers;
Registry<ticketing::Ticket> tickets;
Registry<ticketing::Operation> operations;

std::vector<std::string> split(const std::string &text, char separator) {
    std::vector<std::string> parts;
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, separator);) {
        parts.push_back(part);
    }
    return parts;
}

std::string unhex(const std::string &hex) {
    std::string bytes;
    for (std::size_t at = 0; hex != "-" && at + 1 < hex.size(); at += 2) {
        bytes.push_back(static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16)));
    }
    return bytes;
}

ticketing::Options options_of(const Arguments &arguments) {
    ticketing::Options options(split(arguments.at("addrs"), ','));
    if (arguments.at("mode") == "cluster") {
        options.fingerprint(arguments.count("fingerprint") ? arguments.at("fingerprint") : "");
    } else if (arguments.at("mode") != "single") {
        throw BadCommand();
    }
    if (arguments.count("token")) {
        options.token(unhex(arguments.at("token")));
    }
    if (arguments.count("pending")) {
        options.pending_max(static_cast<unsigned>(std::stoul(arguments.at("pending"))));
    }
    if (arguments.count("server_name")) {
        options.server_name(arguments.at("server_name"));
    }
    const std::string tls = arguments.count("tls") ? arguments.at("tls") : "off";
    if (tls == "system") {
        options.tls_system_roots();
    } else if (tls == "insecure") {
        options.tls_insecure();
    } else if (tls.rfind("ca:", 0) == 0) {
        options.tls_ca_file(tls.substr(3));
    } else if (tls != "off") {
        throw BadCommand();
    }
    return options;
}

void acquire(const std::string &tag, const Arguments &arguments) {
    const auto broker = brokers.find(arguments.at("broker"));
    const ticketing::AcquireOptions options{
        milliseconds(std::stoll(arguments.at("wait_ms"))), seconds(std::stoll(arguments.at("lease"))),
        milliseconds(arguments.count("budget_ms") ? std::stoll(arguments.at("budget_ms")) : 0)};
    std::vector<std::string> keys;
    if (arguments.count("key")) {
        keys.push_back(unhex(arguments.at("key")));
    } else {
        for (const std::string &hex : split(arguments.at("keys"), ',')) {
            keys.push_back(unhex(hex));
        }
    }
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    auto told = [tag](ticketing_status status, std::unique_ptr<ticketing::Ticket> ticket) {
        if (status != TICKETING_OK) {
            print(tag, error_text(status));
            return;
        }
        const std::string text = "granted token=" + std::to_string(ticket->token()) +
                                 " remaining_ms=" + std::to_string(ticket->remaining().count());
        tickets.put(tag, std::move(ticket));
        print(tag, text);
    };
    operations.put(tag, std::make_shared<ticketing::Operation>(broker->acquire_async(views, options, std::move(told))));
}

void release(const std::string &tag, const Arguments &arguments) {
    tickets.find(arguments.at("ticket"))->release_async([tag](ticketing_status status) {
        print(tag, status == TICKETING_OK         ? "released"
                   : status == TICKETING_NOT_HELD ? "not-held"
                                                  : error_text(status));
    });
}

std::string pairs(const Arguments &arguments) {
    const auto broker = brokers.find(arguments.at("broker"));
    const std::string prefix = unhex(arguments.at("key"));
    const long count = std::stol(arguments.at("count"));
    std::atomic<long> left{count};
    std::atomic<long> failed{0};
    std::vector<std::thread> callers;
    const auto begin = std::chrono::steady_clock::now();
    for (int caller = 0; caller < std::stoi(arguments.at("callers")); ++caller) {
        callers.emplace_back([&, key = prefix + std::to_string(caller)] {
            while (left-- > 0) {
                try {
                    failed += broker->acquire(key, {seconds(5), seconds(30)}).release() !=
                              ticketing::ReleaseOutcome::released;
                } catch (const ticketing::Error &) {
                    ++failed;
                }
            }
        });
    }
    for (std::thread &caller : callers) {
        caller.join();
    }
    const auto time = std::chrono::steady_clock::now() - begin;
    return "pairs count=" + std::to_string(count) + " failed=" + std::to_string(failed) +
           " nanoseconds=" + std::to_string(std::chrono::nanoseconds(time).count());
}

void run(const std::string &verb, const std::string &tag, const Arguments &arguments) {
    try {
        if (verb == "open") {
            brokers.put(tag, std::make_shared<ticketing::Broker>(options_of(arguments)));
            print(tag, "ok");
        } else if (verb == "ready") {
            brokers.find(arguments.at("broker"))->wait_ready(milliseconds(std::stoll(arguments.at("timeout_ms"))));
            print(tag, "ok");
        } else if (verb == "acquire" || verb == "acquire-set") {
            acquire(tag, arguments);
        } else if (verb == "cancel") {
            operations.find(arguments.at("target"))->cancel();
            print(tag, "ok");
        } else if (verb == "release") {
            release(tag, arguments);
        } else if (verb == "drop") {
            tickets.find(arguments.at("ticket"));
            tickets.remove(arguments.at("ticket"));
            print(tag, "ok");
        } else if (verb == "close") {
            brokers.find(arguments.at("broker"))->close();
            print(tag, "ok");
        } else {
            print(tag, pairs(arguments));
        }
    } catch (const ticketing::Error &error) {
        const int code = error.rejection_code();
        print(tag, std::string("error ") + error.name() + (code == 0 ? "" : ' ' + std::to_string(code)));
    } catch (const BadCommand &) {
        print(tag, "error BadCommand");
    } catch (const std::out_of_range &) {
        print(tag, "error BadCommand");
    }
}

bool is_known(const std::string &verb, const Arguments &arguments) {
    const auto names = known.find(verb);
    if (names == known.end()) {
        return false;
    }
    for (const auto &[name, value] : arguments) {
        if (names->second.count(name) == 0) {
            return false;
        }
    }
    return true;
}

} // namespace

int main() {
    for (std::string line; std::getline(std::cin, line);) {
        const std::vector<std::string> words = split(line, ' ');
        Arguments arguments;
        for (std::size_t index = 2; index < words.size(); ++index) {
            const std::size_t equals = words[index].find('=');
            arguments[words[index].substr(0, equals)] = words[index].substr(equals + 1);
        }
        const std::string &verb = words.at(0);
        const std::string &tag = words.at(1);
        if (!is_known(verb, arguments)) {
            print(tag, "error BadCommand");
        } else if (verb == "ready" || verb == "close" || verb == "pairs") {
            // These wait.
            std::thread(run, verb, tag, arguments).detach();
        } else {
            run(verb, tag, arguments);
        }
    }
    tickets.clear();
    operations.clear();
    brokers.clear();
    std::_Exit(0);
}
