// What a compiled library says of itself, and Python compares at loading: the fields of each struct
// that both sides know, and what each function takes.  interface.py makes the same text of its own.

#pragma once

#include <cstddef>
#include <sstream>
#include <string>
#include <type_traits>

// Describe a struct by the names of its fields.  The list stands next to the struct and is complete:
// a structured binding takes as many names as there are fields, and each name is one of them.
#define DESCRIBE(Struct, ...)                                                                 \
  struct Struct##Fields : Struct {                                                            \
    static void All(const Struct &one) { [[maybe_unused]] const auto &[__VA_ARGS__] = one; }  \
    void AddTo(Interface *to) const {                                                         \
      to->AddStruct<Struct>(#Struct, #__VA_ARGS__, this, __VA_ARGS__);                        \
    }                                                                                         \
  }

#define NAMED(function) #function, function  // for Interface::Function

class Interface {
 public:
  // Fields: what DESCRIBE made.
  template <class Fields>
  Interface &Struct() {
    Fields{}.AddTo(this);
    return *this;
  }

  template <class Result, class... Argument>
  Interface &Function(const char *name, Result (*)(Argument...)) {
    Line(name, TypeOf<Result>() + " of" + (std::string() + ... + (" " + TypeOf<Argument>())));
    return *this;
  }

  template <class Struct, class... Field>
  void AddStruct(const std::string &name, const char *fields, const Struct *whole,
                 const Field &...field) {
    std::istringstream names(fields);
    const auto add = [&](const void *at, size_t size) {
      std::string field;
      std::getline(names >> std::ws, field, ',');
      const auto offset = static_cast<const char *>(at) - reinterpret_cast<const char *>(whole);
      Line(name + "." + field, std::to_string(size) + " bytes at " + std::to_string(offset));
    };
    (add(&field, sizeof field), ...);
    Line(name, std::to_string(sizeof(Struct)) + " bytes");
  }

  const std::string &text() const { return text_; }

 private:
  void Line(const std::string &name, const std::string &what) { text_ += name + ": " + what + "\n"; }

  template <class T>
  static std::string TypeOf() {
    if constexpr (std::is_void_v<T>) {
      return "nothing";
    } else if constexpr (std::is_pointer_v<T>) {
      return "pointer";
    } else {
      static_assert(std::is_arithmetic_v<T>, "a type that Python is not told of");
      return (std::is_integral_v<T> ? "int" : "float") + std::to_string(8 * sizeof(T));
    }
  }

  std::string text_;
};
