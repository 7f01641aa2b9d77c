// C++17 client for the Ticketing lock server: RAII over the C library.
//
// A Broker is shared by all threads; a Ticket is a held lock and is released when it goes away. Every failure is an
// exception whose class tells what is known about the lock. After fork() both belong to the parent: in the child every
// call throws Closed, and their destructors leave the parent's connections and locks alone.
#ifndef TICKETING_TICKETING_HPP
#define TICKETING_TICKETING_HPP

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ticketing/ticketing.h>

namespace ticketing {

// Base of every error. Branch on the class or on kind(), never on the message.
class Error : public std::runtime_error {
  public:
    Error(ticketing_status status, const std::string &message) : std::runtime_error(message), status_(status) {}

    // What is known about the lock.
    ticketing_status kind() const noexcept { return ticketing_kind(status_); }
    // The name that all official clients share, for example "Timeout".
    const char *name() const noexcept { return ticketing_status_name(status_); }
    // The protocol's error code (1-7) of a Rejected, else 0.
    int rejection_code() const noexcept { return ticketing_rejection_code(status_); }

  private:
    ticketing_status status_;
};

#define TICKETING_DEFINE_ERROR(name)                                                                                   \
    class name : public Error {                                                                                        \
        using Error::Error;                                                                                            \
    }
// An argument breaks a rule. Nothing was sent.
TICKETING_DEFINE_ERROR(InvalidInput);
// The client's own limit on pending requests is reached. Nothing was sent.
TICKETING_DEFINE_ERROR(ClientCapacity);
// Not held; whatever the server may have granted is being released.
TICKETING_DEFINE_ERROR(Cancelled);
// The broker is closed, or was made before a fork, by the parent. Nothing was sent.
TICKETING_DEFINE_ERROR(Closed);
// The turn did not come within the wait. Not held, and this request can never be granted.
TICKETING_DEFINE_ERROR(Timeout);
// Not held: the server is at capacity.
TICKETING_DEFINE_ERROR(Busy);
// Not held: no server was reachable within the wait.
TICKETING_DEFINE_ERROR(NotConnected);
// Not held: the server refused the token.
TICKETING_DEFINE_ERROR(Unauthorized);
// Not held: the cluster had no leader that serves, or a restarted single server still waited for the leases of its
// predecessor to end.
TICKETING_DEFINE_ERROR(NoLeader);
// The server refused the request's values; nothing was done.
TICKETING_DEFINE_ERROR(Rejected);
// Granted, but with less lease left than the work budget. It is being released.
TICKETING_DEFINE_ERROR(InsufficientLease);
// Unknown: the request may have been taken. Do not enter the critical section; at worst the lease ends the lock.
TICKETING_DEFINE_ERROR(Indeterminate);
// Release only: no definite answer within 5 s. The lease ends the lock.
TICKETING_DEFINE_ERROR(ReleaseUnconfirmed);
#undef TICKETING_DEFINE_ERROR

// Throws what a status says; `detail` may name the argument at fault.
[[noreturn]] inline void throw_status(ticketing_status status, const char *detail = nullptr) {
    const std::string message = detail != nullptr && *detail != 0 ? detail : ticketing_strerror(status);
    switch (ticketing_kind(status)) {
    case TICKETING_ERROR_INVALID_INPUT:
        throw InvalidInput(status, message);
    case TICKETING_ERROR_CLIENT_CAPACITY:
        throw ClientCapacity(status, message);
    case TICKETING_ERROR_CANCELLED:
        throw Cancelled(status, message);
    case TICKETING_ERROR_CLOSED:
        throw Closed(status, message);
    case TICKETING_ERROR_TIMEOUT:
        throw Timeout(status, message);
    case TICKETING_ERROR_BUSY:
        throw Busy(status, message);
    case TICKETING_ERROR_NOT_CONNECTED:
        throw NotConnected(status, message);
    case TICKETING_ERROR_UNAUTHORIZED:
        throw Unauthorized(status, message);
    case TICKETING_ERROR_NO_LEADER:
        throw NoLeader(status, message);
    case TICKETING_ERROR_REJECTED:
        throw Rejected(status, message);
    case TICKETING_ERROR_INSUFFICIENT_LEASE:
        throw InsufficientLease(status, message);
    case TICKETING_ERROR_INDETERMINATE:
        throw Indeterminate(status, message);
    case TICKETING_ERROR_RELEASE_UNCONFIRMED:
        throw ReleaseUnconfirmed(status, message);
    case TICKETING_ERROR_RESOURCES:
        throw std::bad_alloc();
    default:
        throw Error(status, message);
    }
}

// The handle of an object that was not moved from.
template <typename Handle> typename Handle::pointer held(const Handle &handle, const char *complaint) {
    if (!handle) {
        throw_status(TICKETING_ERROR_INVALID_INPUT, complaint);
    }
    return handle.get();
}

// How long an acquire may queue and hold. Out of range values are refused, never clamped.
struct AcquireOptions {
    // Longest time to queue, 0-255 s; fractions of a second are rounded up; 0, also when not set, is one immediate try.
    std::chrono::milliseconds wait{0};
    // 1-250 s; without one an acquire is refused.
    std::chrono::seconds lease{0};
    // Least time that must be left of the lease when the grant arrives; less than the lease.
    std::chrono::milliseconds budget{0};
};

// A definite answer to a release.
enum class ReleaseOutcome {
    released,
    // That token holds nothing any more: it was released already, or its lease is over.
    not_held,
};

// What a broker is told.
class Options {
  public:
    // One server, or the 3 or 5 nodes of a cluster in slot order: host:port, IPv6 as [addr]:port.
    explicit Options(const std::vector<std::string> &addresses) : handle_(ticketing_options_new()) {
        if (!handle_) {
            throw std::bad_alloc();
        }
        for (const std::string &address : addresses) {
            check(ticketing_options_add_address(handle_.get(), address.c_str()));
        }
    }
    explicit Options(const std::string &address) : Options(std::vector<std::string>{address}) {}
    explicit Options(const char *address) : Options(std::string(address)) {}

    // The cluster's identity: 64 hexadecimal digits. Selects cluster mode.
    Options &fingerprint(const std::string &hex) {
        return check(ticketing_options_set_fingerprint(handle(), hex.c_str()));
    }
    // Client token, 16-4096 bytes. Without one every address must be a loopback address.
    Options &token(std::string_view token) {
        return check(ticketing_options_set_token(handle(), token.data(), token.size()));
    }
    // TLS 1.2 or newer with the system's certificate authorities. Certificates and names are verified.
    Options &tls_system_roots() { return check(ticketing_options_set_tls_system_roots(handle())); }
    // TLS with the authorities of a PEM file and no others.
    Options &tls_ca_file(const std::string &path) {
        return check(ticketing_options_set_tls_ca_file(handle(), path.c_str()));
    }
    // TLS without any verification: no protection against an attacker on the network. For tests only.
    Options &tls_insecure() { return check(ticketing_options_set_tls_insecure(handle())); }
    // The name that the certificate must carry, instead of the host of the address. Without TLS it is refused.
    Options &server_name(const std::string &name) {
        return check(ticketing_options_set_server_name(handle(), name.c_str()));
    }
    // Most acquires between call and answer, over the whole broker: 1-16,384; 1024.
    Options &pending_max(unsigned count) { return check(ticketing_options_set_pending_max(handle(), count)); }

  private:
    friend class Broker;

    struct Free {
        void operator()(ticketing_options *options) const noexcept { ticketing_options_free(options); }
    };

    Options &check(ticketing_status status) {
        if (status != TICKETING_OK) {
            throw_status(status, ticketing_options_error(handle_.get()));
        }
        return *this;
    }

    ticketing_options *handle() const { return held(handle_, "these options were moved from"); }

    std::unique_ptr<ticketing_options, Free> handle_;
};

// A held lock on one key or a set of keys; move-only. It is released in the background when it goes away, so compilers
// warn where one is not kept.
//
// Give token() to the protected resource, which must refuse any token below the highest it has seen, and stop working
// when remaining() is zero. One that was moved from throws InvalidInput.
class [[nodiscard]] Ticket {
  public:
    // Fencing token: strictly larger than every token granted before it in the same domain.
    std::uint64_t token() const { return ticketing_ticket_token(handle()); }
    // "single", or the cluster's fingerprint. Tokens of two domains must never be compared.
    std::string_view domain() const { return ticketing_ticket_domain(handle()); }
    // How long the lock may still be relied on: send time + lease - now, zero when that has passed.
    std::chrono::milliseconds remaining() const {
        return std::chrono::milliseconds(ticketing_ticket_remaining_ms(handle()));
    }
    // The keys, ascending bytewise.
    std::vector<std::string> keys() const {
        std::vector<std::string> result;
        for (std::size_t index = 0; index < ticketing_ticket_key_count(handle()); ++index) {
            const ticketing_key key = ticketing_ticket_key(handle(), index);
            result.emplace_back(static_cast<const char *>(key.bytes), key.size);
        }
        return result;
    }

    // Releases the lock and waits for the server's definite answer, at most 5 s. Throws ReleaseUnconfirmed,
    // ClientCapacity, Closed or Rejected, and then the lease ends the lock. A second call gives not_held.
    ReleaseOutcome release() {
        const ticketing_status status = ticketing_release(handle());
        if (status != TICKETING_OK && status != TICKETING_NOT_HELD) {
            throw_status(status);
        }
        return status == TICKETING_OK ? ReleaseOutcome::released : ReleaseOutcome::not_held;
    }

    // Begins to release; the callback runs on the broker's thread and must not block or throw. It is told TICKETING_OK,
    // TICKETING_NOT_HELD or an error. A second call tells TICKETING_NOT_HELD at once, on the calling thread.
    void release_async(std::function<void(ticketing_status)> callback) {
        auto context = std::make_unique<std::function<void(ticketing_status)>>(std::move(callback));
        const ticketing_status status = ticketing_release_start(handle(), &released, context.get());
        if (status == TICKETING_NOT_HELD) {
            (*context)(status);
            return;
        }
        if (status != TICKETING_OK) {
            throw_status(status);
        }
        context.release();
    }

    // Takes over a handle of the C library.
    explicit Ticket(ticketing_ticket *handle) noexcept : handle_(handle) {}

  private:
    struct Free {
        void operator()(ticketing_ticket *ticket) const noexcept { ticketing_ticket_free(ticket); }
    };

    static void released(void *context, ticketing_status status) noexcept {
        const std::unique_ptr<std::function<void(ticketing_status)>> callback(
            static_cast<std::function<void(ticketing_status)> *>(context));
        (*callback)(status);
    }

    ticketing_ticket *handle() const { return held(handle_, "this ticket was moved from"); }

    std::unique_ptr<ticketing_ticket, Free> handle_;
};

// An acquire under way, for giving up; move-only. Letting it go away does not give up.
class Operation {
  public:
    // The callback hears TICKETING_ERROR_CANCELLED, and a late grant is released. No effect after the end, and when it
    // was moved from.
    void cancel() noexcept {
        if (handle_) {
            ticketing_operation_cancel(handle_.get());
        }
    }

    explicit Operation(ticketing_operation *handle) noexcept : handle_(handle) {}

  private:
    struct Free {
        void operator()(ticketing_operation *operation) const noexcept { ticketing_operation_free(operation); }
    };

    std::unique_ptr<ticketing_operation, Free> handle_;
};

// A client of one server or cluster; move-only, thread-safe. Its own thread connects, serves and reconnects for ever: a
// dead server never breaks it. Tickets may outlive it. One that was moved from throws InvalidInput.
class Broker {
  public:
    // Told once how an acquire ended. The ticket is there only when the status is TICKETING_OK.
    using Acquired = std::function<void(ticketing_status, std::unique_ptr<Ticket>)>;

    // Begins to connect and returns at once.
    explicit Broker(Options &options) {
        ticketing_broker *broker = nullptr;
        options.check(ticketing_broker_new(options.handle(), &broker));
        handle_.reset(broker);
    }
    explicit Broker(Options &&options) : Broker(options) {}

    // Waits until a connection is usable; throws Unauthorized or NotConnected when none is after the time. Acquires
    // need no such call: they wait for a connection themselves.
    void wait_ready(std::chrono::milliseconds timeout) {
        const std::uint32_t limit = c_number(timeout.count(), "the timeout is 0 to 2,147,483,647 ms");
        const ticketing_status status = ticketing_broker_wait_ready(handle(), limit);
        if (status != TICKETING_OK) {
            fail(status);
        }
    }

    // Acquires one key and waits for it. Callers queue strictly first in, first out; the lock is not re-entrant.
    Ticket acquire(std::string_view key, const AcquireOptions &options) { return acquire_set({key}, options); }

    // Acquires up to 16 keys, all or nothing, under one token. Order and duplicates do not matter.
    Ticket acquire_set(const std::vector<std::string_view> &keys, const AcquireOptions &options) {
        const std::vector<ticketing_key> list = c_keys(keys);
        const ticketing_acquire_options times = c_options(options);
        ticketing_ticket *ticket = nullptr;
        check(ticketing_acquire_set(handle(), list.data(), list.size(), &times, &ticket), list, times);
        return Ticket(ticket);
    }

    // Begins to acquire; the callback runs on the broker's thread and must not block or throw. When this throws, it is
    // not called.
    Operation acquire_async(const std::vector<std::string_view> &keys, const AcquireOptions &options,
                            Acquired callback) {
        const std::vector<ticketing_key> list = c_keys(keys);
        const ticketing_acquire_options times = c_options(options);
        auto context = std::make_unique<Acquired>(std::move(callback));
        ticketing_operation *operation = nullptr;
        check(ticketing_acquire_start(handle(), list.data(), list.size(), &times, &acquired, context.get(), &operation),
              list, times);
        context.release();
        return Operation(operation);
    }

    // Why the latest session with a server ended, and which server's, for logs. A NotConnected says it by itself.
    std::string failure() const {
        char text[failure_size];
        ticketing_broker_failure(handle(), text, sizeof text);
        return text;
    }

    // Refuses new calls, lets releases under way finish for at most 5 s, and returns when thread and sockets are gone.
    // Locks still held end with their lease. Idempotent.
    void close() noexcept {
        if (handle_) {
            ticketing_broker_close(handle_.get());
        }
    }

  private:
    // A host name of 255 bytes, and a sentence.
    static constexpr std::size_t failure_size = 512;

    struct Free {
        void operator()(ticketing_broker *broker) const noexcept { ticketing_broker_free(broker); }
    };

    // Throws, and says what the status alone does not: which argument, or why no server was reachable.
    void check(ticketing_status status, const std::vector<ticketing_key> &keys,
               const ticketing_acquire_options &options) const {
        if (status == TICKETING_ERROR_INVALID_INPUT) {
            throw_status(status, ticketing_acquire_problem(keys.data(), keys.size(), &options));
        }
        if (status != TICKETING_OK) {
            fail(status);
        }
    }

    [[noreturn]] void fail(ticketing_status status) const {
        if (status == TICKETING_ERROR_NOT_CONNECTED) {
            throw_status(status, ("no server was reachable: " + failure()).c_str());
        }
        throw_status(status);
    }

    static std::vector<ticketing_key> c_keys(const std::vector<std::string_view> &keys) {
        std::vector<ticketing_key> list;
        list.reserve(keys.size());
        for (const std::string_view key : keys) {
            // An empty view may have no bytes at all, and is refused by the library either way.
            list.push_back(ticketing_key{key.data(), key.size()});
        }
        return list;
    }

    // A value that the C type cannot hold is out of range as well.
    static std::uint32_t c_number(std::int64_t count, const char *name) {
        if (count < 0 || count > INT32_MAX) {
            throw_status(TICKETING_ERROR_INVALID_INPUT, name);
        }
        return static_cast<std::uint32_t>(count);
    }

    static ticketing_acquire_options c_options(const AcquireOptions &options) {
        return ticketing_acquire_options{
            c_number(options.wait.count(), "wait is 0 to 255 s"),
            c_number(options.lease.count(), "lease is 1 to 250 s"),
            c_number(options.budget.count(), "the budget is from 0 to less than the lease")};
    }

    static void acquired(void *context, ticketing_status status, ticketing_ticket *ticket) noexcept {
        const std::unique_ptr<Acquired> callback(static_cast<Acquired *>(context));
        (*callback)(status, ticket == nullptr ? nullptr : std::make_unique<Ticket>(ticket));
    }

    ticketing_broker *handle() const { return held(handle_, "this broker was moved from"); }

    std::unique_ptr<ticketing_broker, Free> handle_;
};

} // namespace ticketing

#endif
