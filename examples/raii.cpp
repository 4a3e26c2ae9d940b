// raii: a lease as a C++17 value. The context renews it while it lives, and it is released when it goes out of scope.
//
//     raii STORE TARGET
//     c++ -std=c++17 raii.cpp $(pkg-config --cflags --libs tenure)
//
// It uses the public C API only. Copy Context and Lease as they are, or as a start.
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <tenure.h>

namespace tenure {

// What failed, with the library's message; `code` is a TENURE_E_...
class Error : public std::runtime_error {
  public:
    Error(int code, const char *message)
        : std::runtime_error(message && *message ? message : tenure_strerror(code)), code_(code) {
    }
    int code() const noexcept {
        return code_;
    }
    bool held() const noexcept {
        return code_ == TENURE_E_HELD;
    }

  private:
    int code_;
};

// An instance on a store. Destroying it releases what is still held, and waits for that at most two time-outs.
class Context {
  public:
    explicit Context(const std::string &url, std::chrono::milliseconds ttl = std::chrono::seconds(30)) {
        tenure_options options{};
        options.size = sizeof options;
        options.ttl_ms = static_cast<std::uint64_t>(ttl.count());
        tenure_context *opened = nullptr;
        if (int error = tenure_open(url.c_str(), &options, &opened); error < 0)
            throw Error(error, tenure_message(nullptr));
        context_.reset(opened);
    }
    tenure_context *get() const noexcept {
        return context_.get();
    }

  private:
    struct Close {
        void operator()(tenure_context *context) const noexcept {
            tenure_close(context);
        }
    };
    std::unique_ptr<tenure_context, Close> context_;
};

// It can be moved, and not copied: a lease has one holder. A lease that outlives its context is not valid any more.
class Lease {
  public:
    Lease(const Context &context, const std::string &target, std::chrono::milliseconds wait = {}) {
        tenure_lease *acquired = nullptr;
        const auto wait_ms = static_cast<std::uint64_t>(wait.count());
        if (int error = tenure_acquire(context.get(), target.c_str(), wait_ms, 0, &acquired); error < 0)
            throw Error(error, tenure_message(context.get()));
        lease_.reset(acquired);
    }

    // A clock read. Check before each step and before each message; it turns false by itself.
    explicit operator bool() const noexcept {
        return lease_ && tenure_lease_valid(lease_.get());
    }
    std::uint64_t token() const noexcept {
        return tenure_lease_token(lease_.get());
    }
    // For loops that prefer an exception.
    void check() const {
        if (!*this)
            throw Error(TENURE_E_LOST, nullptr);
    }

  private:
    // The work has stopped when this runs: that is what the scope is for. What cannot be released ends by its TTL.
    struct Release {
        void operator()(tenure_lease *lease) const noexcept {
            tenure_release(lease);
            tenure_lease_free(lease);
        }
    };
    std::unique_ptr<tenure_lease, Release> lease_;
};

} // namespace tenure

int main(int argc, char **argv) {
    if (argc != 3) {
        std::cerr << "usage: raii STORE TARGET\n";
        return 2;
    }
    try {
        const tenure::Context context(argv[1], std::chrono::milliseconds(600));
        const tenure::Lease lease(context, argv[2]);
        // Longer than the TTL: the context renews the lease.
        for (int step = 1; step <= 5; step++) {
            lease.check();
            std::cout << "step " << step << " under token " << lease.token() << std::endl;
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
        }
    } catch (const tenure::Error &error) {
        std::cerr << "raii: " << error.what() << "\n";
        return error.held() ? 4 : 1;
    }
    return 0;
}
